"""`kvlease tickets`: where recent turns went, why, and what their prompts cost."""

import argparse
from collections.abc import Callable

from kvlease.cli.command import OK, Subparsers, add_connection, at_least_one, connect
from kvlease.cli.command import add_parser as add
from kvlease.cli.output import length, print_json, print_table
from kvlease.cli.verdict import REASONS
from kvlease.client.types import Ticket, TicketState
from kvlease.rpc.telemetry import NO_MISSES

MOST = 1000  # that a router lists at once
STATES = [state for state in TicketState if state is not TicketState.UNKNOWN]

COLUMNS: dict[str, Callable[[Ticket], object]] = {
    "TICKET": lambda ticket: ticket.terms.ticket_id,
    "AGE": lambda ticket: length(ticket.age),
    "STATE": lambda ticket: ticket.state,
    "CONVERSATION": lambda ticket: ticket.terms.conversation_id,
    "PREFILL": lambda ticket: ticket.terms.prefill and ticket.terms.prefill.engine_id,
    "DECODE": lambda ticket: ticket.terms.decode.engine_id,
    "LEASED": lambda ticket: ticket.leased_tokens,
    "PROMPT": lambda ticket: ticket.report and ticket.report.prompt_tokens,
    "REUSED": lambda ticket: ticket.report and ticket.report.reused_tokens,
    "LOCAL": lambda ticket: ticket.report and ticket.report.local_tokens,
    "COMPUTED": lambda ticket: ticket.report and ticket.report.computed_tokens,
    "MISS": lambda ticket: ticket.report and ticket.report.miss_reason,
    "DECISION": lambda ticket: ticket.decision,
}

SPARE = ("DECISION", "TICKET", "LEASED", "LOCAL", "PREFILL", "STATE")
"""Columns that a narrow terminal does without, the first ones first."""


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease tickets
        kvlease tickets --conversation my-conversation --limit 5
        kvlease tickets --missed NO_LEASE --state completed
        kvlease tickets --json | jq '.[] | [.terms.ticket_id, .report.reused_tokens]'
    """
    parser = add(subparsers, "tickets", "list recent turns of a router, newest first", run, examples=examples)
    parser.add_argument("ticket", nargs="?", metavar="TICKET", help="only this one")
    parser.add_argument("--conversation", default="", metavar="ID", help="only those of this conversation")
    parser.add_argument("--model", default="", help="only those of this model")
    parser.add_argument("--state", type=TicketState, choices=STATES, help="only those in this state")
    missed = "only those that missed, for a reason"
    parser.add_argument("--missed", nargs="?", const="", type=_reason, metavar="REASON", help=missed)
    parser.add_argument("--limit", type=at_least_one, default=20, metavar="N", help="at most so many (default 20)")
    add_connection(parser, "router")


def _reason(text: str) -> str:
    if text and text not in REASONS:
        raise argparse.ArgumentTypeError(f"{text!r} is no reason: write one of {', '.join(REASONS)}")
    return text


def run(args: argparse.Namespace) -> int:
    """Prints the tickets."""
    with connect(args) as client:
        if args.ticket:
            tickets = [client.get_ticket(args.ticket, timeout=args.timeout)]
        else:
            listed = client.list_tickets(conversation_id=args.conversation, limit=MOST, timeout=args.timeout)
            tickets = [ticket for ticket in listed if _wanted(ticket, args)][: args.limit]
    if args.json:
        print_json(tickets)
    else:
        print_table(COLUMNS, tickets, spare=SPARE)
    return OK


def _wanted(ticket: Ticket, args: argparse.Namespace) -> bool:
    """Tells whether all holds that is asked for."""
    missed = ticket.report.miss_reason if ticket.report else ""
    return (
        args.model in ("", ticket.model)
        and args.state in (None, ticket.state)
        and (args.missed is None or (missed not in NO_MISSES and args.missed in ("", missed)))
    )
