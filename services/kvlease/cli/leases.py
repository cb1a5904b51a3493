"""`kvlease leases`: what is kept for whom, and for how long."""

import argparse
from collections.abc import Callable, Sequence

from kvlease.cli.command import OK, Subparsers, add_connection, connect, one_of
from kvlease.cli.command import add_parser as add
from kvlease.cli.output import length, print_json, print_table
from kvlease.client.types import Lease, LeaseKind, LeaseState

COLUMNS: dict[str, Callable[[Lease], object]] = {
    "CONVERSATION": lambda lease: lease.conversation_id,
    "GEN": lambda lease: lease.generation,
    "KIND": lambda lease: lease.kind,
    "STATE": lambda lease: lease.state,
    "ENGINE": lambda lease: lease.engine.engine_id,
    "TOKENS": lambda lease: lease.tokens,
    "BLOCKS": lambda lease: lease.blocks,
    "REMAINING": lambda lease: length(lease.remaining),
    "IDLE": lambda lease: length(lease.idle),
    "CLAIMS": lambda lease: lease.claims,
    "LEASE": lambda lease: lease.lease_id,
}

KNOWN = [state for state in LeaseState if state is not LeaseState.UNKNOWN]
LISTED = [state for state in KNOWN if state is not LeaseState.FREED]
"""In which leases can be found. A freed one is told of once, to those who watch."""

SPARE = ("LEASE", "IDLE", "CLAIMS", "KIND", "GEN")
"""Columns that a narrow terminal does without, the first ones first."""


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease leases
        kvlease leases my-conversation
        kvlease leases --engine decode-0 --json | jq 'map(.blocks) | add'
    """
    parser = add(subparsers, "leases", "list leases, oldest first", run, examples=examples)
    parser.add_argument("conversation", nargs="?", default="", metavar="CONVERSATION", help="only its leases")
    add_filter(parser, LISTED)
    add_connection(parser, "registry")


def add_filter(parser: argparse.ArgumentParser, states: Sequence[LeaseState]) -> None:
    """Adds what selects leases, all of which must hold."""
    parser.add_argument("--engine", default="", metavar="ID", help="only those that this engine holds")
    kinds = [kind for kind in LeaseKind if kind is not LeaseKind.UNKNOWN]
    parser.add_argument("--kind", type=one_of(kinds), choices=kinds, help="only of this kind")
    parser.add_argument("--state", type=one_of(states), choices=states, help="only in this state")


def run(args: argparse.Namespace) -> int:
    """Prints the leases."""
    with connect(args) as client:
        leases = client.list_leases(
            conversation_id=args.conversation,
            engine_id=args.engine,
            kind=args.kind,
            state=args.state,
            timeout=args.timeout,
        )
    if args.json:
        print_json(leases)
    else:
        print_table(COLUMNS, leases, spare=SPARE)
    return OK
