"""`kvlease tickets`: where recent turns went, why, and what their prompts cost."""

import argparse

from kvlease.cli.command import OK, Subparsers, add_connection, connect
from kvlease.cli.command import add_parser as add
from kvlease.cli.output import length, print_json, print_table
from kvlease.client.types import Ticket

COLUMNS = "TICKET AGE STATE CONVERSATION PREFILL DECODE LEASED PROMPT REUSED LOCAL COMPUTED MISS DECISION".split()


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease tickets
        kvlease tickets --conversation my-conversation --limit 5
        kvlease tickets --json | jq '.[] | [.terms.ticket_id, .report.reused_tokens]'
    """
    parser = add(subparsers, "tickets", "list recent turns of a router, newest first", run, examples=examples)
    parser.add_argument("ticket", nargs="?", metavar="TICKET", help="only this one")
    parser.add_argument("--conversation", default="", metavar="ID", help="only those of this conversation")
    parser.add_argument("--limit", type=int, default=20, metavar="N", help="at most so many (default 20)")
    add_connection(parser, "router")


def run(args: argparse.Namespace) -> int:
    """Prints the tickets."""
    with connect(args) as client:
        if args.ticket:
            tickets = [client.get_ticket(args.ticket, timeout=args.timeout)]
        else:
            tickets = client.list_tickets(conversation_id=args.conversation, limit=args.limit, timeout=args.timeout)
    if args.json:
        print_json(tickets)
    else:
        print_table(COLUMNS, map(_row, tickets))
    return OK


def _row(ticket: Ticket) -> tuple[object, ...]:
    terms, report = ticket.terms, ticket.report
    return (
        terms.ticket_id,
        length(ticket.age),
        ticket.state,
        terms.conversation_id,
        terms.prefill and terms.prefill.engine_id,
        terms.decode.engine_id,
        ticket.leased_tokens,
        report and report.prompt_tokens,
        report and report.reused_tokens,
        report and report.local_tokens,
        report and report.computed_tokens,
        report and report.miss_reason,
        ticket.decision,
    )
