"""`kvlease engines`: what is registered, how busy it is, and what it keeps."""

import argparse
from collections.abc import Callable

from kvlease.cli import drain
from kvlease.cli.command import OK, Subparsers, add_connection, connect, one_of
from kvlease.cli.command import add_parser as add
from kvlease.cli.output import length, print_json, print_table
from kvlease.client.types import Engine, EngineRole

ROLES = [role for role in EngineRole if role is not EngineRole.UNKNOWN]
STATES = ("healthy", "draining", "lost")


def state(engine: Engine) -> str:
    """Says in a word whether it takes requests."""
    if engine.draining:
        return "draining"
    return "healthy" if engine.healthy else "lost"


COLUMNS: dict[str, Callable[[Engine], object]] = {
    "ENGINE": lambda engine: engine.ref.engine_id,
    "ROLE": lambda engine: engine.role,
    "STATE": state,
    "RUNNING": lambda engine: engine.load.running,
    "WAITING": lambda engine: engine.load.waiting,
    "FREE": lambda engine: f"{engine.load.free_blocks}/{engine.total_blocks}",
    "LEASES": lambda engine: engine.leases,
    "LEASED": lambda engine: engine.leased_blocks,
    "BUDGET": lambda engine: engine.retention_budget_blocks,
    "SILENT": lambda engine: length(engine.silent),
    "VLLM": lambda engine: engine.vllm_version,
    "MODELS": lambda engine: ",".join(engine.models),
    "URL": lambda engine: engine.http_url,
}

SPARE = ("VLLM", "MODELS", "URL", "SILENT", "WAITING", "LEASED", "ROLE")
"""Columns that a narrow terminal does without, the first ones first."""


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease engines
        kvlease engines --role decode --state healthy
        kvlease engines drain 10.0.0.2:5600 --wait 10m
        kvlease engines --model my-model --json | jq '.[].http_url'
    """
    parser = add(subparsers, "engines", "list engines, also lost ones, with their load", run, examples=examples)
    parser.add_argument("--model", default="", help="only those that serve it")
    parser.add_argument("--role", type=one_of(ROLES), choices=ROLES, help="only those that are started for it")
    parser.add_argument("--state", choices=STATES, help="only those in this state")
    add_connection(parser, "registry")
    drain.add_parser(parser.add_subparsers(title="commands", metavar="[COMMAND]"))


def run(args: argparse.Namespace) -> int:
    """Prints the engines."""
    with connect(args) as client:
        listed = client.list_engines(model=args.model, include_lost=True, timeout=args.timeout)
    engines = [engine for engine in listed if args.role in (None, engine.role) and args.state in (None, state(engine))]
    if args.json:
        print_json(engines)
    else:
        print_table(COLUMNS, engines, spare=SPARE)
    return OK
