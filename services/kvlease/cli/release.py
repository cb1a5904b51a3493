"""`kvlease release`: makes an engine let go of all that it keeps, before it sleeps, is updated or stops."""

import argparse

from kvlease.cli.command import OK, Subparsers, add_connection, connect
from kvlease.cli.command import add_parser as add
from kvlease.cli.output import print_json


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    parser = add(
        subparsers,
        "release",
        "make an engine free all leased KV, before it sleeps or is updated",
        run,
        examples="kvlease release 10.0.0.2:5600",
    )
    parser.add_argument("engine", metavar="ENGINE", help="its id, as `kvlease engines` shows it")
    add_connection(parser, "registry")


def run(args: argparse.Namespace) -> int:
    """Revokes the engine's leases; one that has none has nothing to free."""
    with connect(args) as client:
        leases = client.revoke(args.engine, timeout=args.timeout)
    if args.json:
        print_json({"engine_id": args.engine, "leases": leases})
    else:
        print(f"{leases} {'lease' if leases == 1 else 'leases'} revoked; the blocks are free within a heartbeat")
    return OK
