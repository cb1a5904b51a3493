"""`kvlease release`: makes an engine let go of all that it keeps, before it sleeps, is updated or stops."""

import argparse
import sys
from collections.abc import Iterable

from kvlease.cli.command import FAILED, OK, Subparsers, add_connection, connect, named
from kvlease.cli.command import add_parser as add
from kvlease.cli.output import print_json, printable
from kvlease.client.types import Engine


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    parser = add(
        subparsers,
        "release",
        "make an engine free all leased KV, before it sleeps or is updated",
        run,
        examples="kvlease release 10.0.0.2:5600",
    )
    parser.add_argument("engine", type=named, metavar="ENGINE", help="its id, as `kvlease engines` shows it")
    add_connection(parser, "registry")


def run(args: argparse.Namespace) -> int:
    """Revokes the engine's leases; one that has none has nothing to free. Gives 1 where there is no such engine."""
    with connect(args) as client:
        leases = client.revoke(args.engine, timeout=args.timeout)
        if not leases and not _known(client.list_engines(include_lost=True, timeout=args.timeout), args.engine):
            print(f"kvlease: no such engine: {printable(args.engine)}; see `kvlease engines`", file=sys.stderr)
            return FAILED
    if args.json:
        print_json({"engine_id": args.engine, "leases": leases})
    else:
        print(f"{leases} {'lease' if leases == 1 else 'leases'} revoked; the blocks are free within a heartbeat")
    return OK


def _known(engines: Iterable[Engine], engine_id: str) -> bool:
    return any(engine.ref.engine_id == engine_id for engine in engines)
