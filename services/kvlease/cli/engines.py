"""`kvlease engines`: what is registered, how busy it is, and what it keeps."""

import argparse

from kvlease.cli.command import OK, Subparsers, add_connection, connect
from kvlease.cli.command import add_parser as add
from kvlease.cli.output import length, print_json, print_table
from kvlease.client.types import Engine

COLUMNS = "ENGINE ROLE STATE RUNNING WAITING FREE LEASES LEASED BUDGET SILENT VLLM MODELS URL".split()


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease engines
        kvlease engines --model my-model --json | jq '.[].http_url'
    """
    parser = add(subparsers, "engines", "list engines, also lost ones, with their load", run, examples=examples)
    parser.add_argument("--model", default="", help="only those that serve it")
    add_connection(parser, "registry")


def run(args: argparse.Namespace) -> int:
    """Prints the engines."""
    with connect(args) as client:
        engines = client.list_engines(model=args.model, include_lost=True, timeout=args.timeout)
    if args.json:
        print_json(engines)
    else:
        print_table(COLUMNS, map(_row, engines))
    return OK


def _row(engine: Engine) -> tuple[object, ...]:
    return (
        engine.ref.engine_id,
        engine.role,
        _state(engine),
        engine.load.running,
        engine.load.waiting,
        f"{engine.load.free_blocks}/{engine.total_blocks}",
        engine.leases,
        engine.leased_blocks,
        engine.retention_budget_blocks,
        length(engine.silent),
        engine.vllm_version,
        ",".join(engine.models),
        engine.http_url,
    )


def _state(engine: Engine) -> str:
    if engine.draining:
        return "draining"
    return "healthy" if engine.healthy else "lost"
