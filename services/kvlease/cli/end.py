"""`kvlease end`: lets go of what is kept for a conversation."""

import argparse

from kvlease.cli.command import OK, Subparsers, add_connection, connect, named
from kvlease.cli.command import add_parser as add
from kvlease.cli.output import print_json, printable


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    parser = add(
        subparsers, "end", "end a conversation, so that its KV is freed", run, examples="kvlease end my-conversation"
    )
    parser.add_argument("conversation", type=named, metavar="CONVERSATION")
    add_connection(parser, "registry")


def run(args: argparse.Namespace) -> int:
    """Ends the conversation; one that has no lease has ended already."""
    with connect(args) as client:
        leases = client.end(args.conversation, timeout=args.timeout)
    if args.json:
        print_json({"conversation_id": args.conversation, "leases": leases})
    else:
        kept = "ended" if leases else f"nothing was kept for {printable(args.conversation)} (is the name right?)"
        print(f"{kept}, {leases} {'lease' if leases == 1 else 'leases'} let go")
    return OK
