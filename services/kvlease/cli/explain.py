"""`kvlease explain`: what happened on a conversation's last turns, and why they reused what they did."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kvlease.cli.command import FAILED, OK, Subparsers, add_connection, at_least_one, connect, named
from kvlease.cli.command import add_parser as add
from kvlease.cli.output import length, print_json, printable
from kvlease.cli.verdict import SMALL, Verdict, judge
from kvlease.client.types import Engine, Lease, Ticket
from kvlease.connector.prefix import STRIDE


@dataclass(frozen=True, slots=True)
class Explained:
    """A turn, and what to think of it."""

    ticket: Ticket
    verdict: Verdict


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease explain my-conversation
        kvlease explain my-conversation --limit 1 --json | jq '.turns[0].verdict.why'
    """
    summary = "say why a conversation's last turns were reused or not"
    parser = add(subparsers, "explain", summary, run, examples=examples)
    parser.add_argument("conversation", type=named, metavar="CONVERSATION")
    parser.add_argument("--limit", type=at_least_one, default=5, metavar="N", help="at most so many turns (default 5)")
    add_connection(parser, "registry", "router")


def run(args: argparse.Namespace) -> int:
    """Prints turns, newest first. Gives 1 when nothing at all is known of the conversation."""
    name = args.conversation
    with connect(args) as client:
        tickets = client.list_tickets(conversation_id=name, limit=args.limit + 1, timeout=args.timeout)
        leases = client.list_leases(conversation_id=name, timeout=args.timeout)
        engines = client.list_engines(include_lost=True, timeout=args.timeout)
    turns = list(explained(tickets, engines))[: args.limit]
    if args.json:
        print_json({"conversation_id": name, "turns": turns, "leases": leases})
    else:
        print("\n".join(_lines(name, turns, leases)))
    return OK if tickets or leases else FAILED


def explained(tickets: Sequence[Ticket], engines: Sequence[Engine]) -> Iterator[Explained]:
    """Judges turns of one conversation, newest first."""
    by_id: Mapping[str, Engine] = {engine.ref.engine_id: engine for engine in engines}
    for ticket, before in pairwise([*tickets, None]):
        if ticket is not None:
            yield Explained(ticket, judge(ticket, before, by_id))


def _lines(name: str, turns: Sequence[Explained], leases: Sequence[Lease]) -> Iterator[str]:
    shown = printable(name)
    if not turns:
        yield f"this router knows of no turn of {shown}: is the name right, the tenant, and --router?"
    for turn in turns:
        yield from _turn_lines(turn)
    if not leases:
        yield f"nothing is kept for {shown} now" + (f": {SMALL}" if turns and _small(turns[0].ticket) else "")
    for lease in leases:
        yield (
            f"kept now: {lease.tokens} tokens on {printable(lease.engine.engine_id)} (generation {lease.generation}), "
            f"for {length(lease.remaining)} unless renewed"
        )


def _small(newest: Ticket) -> bool:
    return newest.report is not None and newest.report.prompt_tokens < STRIDE


def _turn_lines(turn: Explained) -> Iterator[str]:
    ticket, verdict, report = turn.ticket, turn.verdict, turn.ticket.report
    yield f"{length(ticket.age)} ago, {ticket.state}: {verdict.outcome}"
    if report:
        yield (
            f"  {report.prompt_tokens} tokens of prompt: {report.reused_tokens} read from decode, "
            f"{report.local_tokens} in prefill's cache, {report.computed_tokens} computed; "
            f"{report.prefill_duration * 1000:.0f} ms, {report.added_wait * 1000:.0f} ms of them waiting"
        )
    yield f"  why: {printable(verdict.why)}"
    if verdict.advice:
        yield f"  do: {printable(verdict.advice)}"
    yield f"  where: {printable(ticket.decision)}"
    yield ""
