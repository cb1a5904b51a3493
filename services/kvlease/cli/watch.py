"""`kvlease watch`: a line for everything that happens to leases."""

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

from kvlease.cli.command import OK, Subparsers, add_connection, advise, connect
from kvlease.cli.command import add_parser as add
from kvlease.cli.leases import KNOWN, add_filter
from kvlease.cli.output import length, print_json, printable
from kvlease.client.errors import DeadlineExceeded, Unavailable, WatcherTooSlow
from kvlease.client.sync import Client
from kvlease.client.types import LeaseEvent

PAUSE = 1.0  # seconds before a watch that broke is begun again


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease watch
        kvlease watch --kind decode --json | jq -c 'select(.kind == "retired") | .lease.retire_reason'
    """
    parser = add(subparsers, "watch", "print what happens to leases, until Ctrl-C", run, examples=examples)
    parser.add_argument("conversation", nargs="?", default="", metavar="CONVERSATION", help="only its leases")
    add_filter(parser, KNOWN)
    add_connection(parser, "registry")


def run(args: argparse.Namespace) -> int:
    """Prints events until it is interrupted."""
    with connect(args) as client, suppress(KeyboardInterrupt):
        for event in _follow(client, args):
            _print(event, as_json=args.json)
    return OK


def _follow(client: Client, args: argparse.Namespace) -> Iterator[LeaseEvent]:
    """Yields events; one that worked and broke is begun again (said once), and what exists is told anew."""
    worked = told = False
    while True:
        try:
            for event in client.watch_leases(
                conversation_id=args.conversation, engine_id=args.engine, kind=args.kind, state=args.state
            ):
                worked, told = True, False
                yield event
        except (Unavailable, DeadlineExceeded, WatcherTooSlow) as error:
            if not worked:
                raise
            if not told:
                print(f"kvlease: watching again when it can be: {advise(error, args)}", file=sys.stderr)
            told = True
        time.sleep(PAUSE)


def _print(event: LeaseEvent, *, as_json: bool) -> None:
    if as_json:
        print_json(event, indent=None)
    else:
        print(_line(event, time.strftime("%H:%M:%S")), flush=True)


def _line(event: LeaseEvent, at: str) -> str:
    """Writes an event: when, what, and the lease after it."""
    lease = event.lease
    if lease is None:
        return f"{at}  {event.kind}"
    return "  ".join(
        [
            at,
            f"{event.kind:<11}",
            f"{printable(lease.conversation_id)}#{lease.generation}",
            f"{lease.kind} on {printable(lease.engine.engine_id)}",
            f"{lease.tokens} tokens",
            lease.retire_reason or f"{length(lease.remaining)} left",
        ]
    )
