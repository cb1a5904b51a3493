"""`kvlease engines drain`: takes an engine out of service without a request that fails."""

import argparse
import time

from kvlease.cli.command import FAILED, OK, Subparsers, add_connection, connect
from kvlease.cli.command import add_parser as add
from kvlease.cli.output import print_json
from kvlease.client.errors import EngineNotFound
from kvlease.client.sync import Client
from kvlease.client.types import Engine
from kvlease.rpc.options import length

POLL = 0.5


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease engines drain 10.0.0.2:5600 --wait 10m
        kvlease engines drain 10.0.0.2:5600 --release --wait 1m
        kvlease engines drain 10.0.0.2:5600 --undo
    """
    summary = "send no new turns to an engine; its requests finish, and what it keeps is read on"
    parser = add(subparsers, "drain", summary, run, examples=examples)
    parser.add_argument("engine", metavar="ENGINE", help="its id, as `kvlease engines` shows it")
    choice = parser.add_mutually_exclusive_group()
    keep = "leave its leases until they expire, or their conversations went on elsewhere (default)"
    choice.add_argument("--keep", action="store_true", help=keep)
    choice.add_argument("--release", action="store_true", help="free its leases too, once nobody reads them")
    choice.add_argument("--undo", action="store_true", help="send it new turns again")
    wait = "return when it runs nothing and keeps nothing; exit code 1 if it still does after so long"
    parser.add_argument("--wait", type=length, default=0.0, metavar="TIME", help=wait)
    add_connection(parser, "registry")


def run(args: argparse.Namespace) -> int:
    """Drains it, and waits if that is wanted."""
    ends_at = time.monotonic() + args.wait
    with connect(args) as client:
        client.drain(args.engine, undo=args.undo, timeout=args.timeout)
        left = _look(client, args)
        while not args.undo and _busy(left) and time.monotonic() < ends_at:
            time.sleep(POLL)
            left = _again(client, args)
    _tell(args, left)
    return FAILED if args.wait and not args.undo and _busy(left) else OK


def _again(client: Client, args: argparse.Namespace) -> Engine | None:
    """Drains it once more: the registry may have been started again, and forgotten it."""
    try:
        client.drain(args.engine, timeout=args.timeout)
    except EngineNotFound:
        return None
    return _look(client, args)


def _look(client: Client, args: argparse.Namespace) -> Engine | None:
    """Shows the engine as it is now, its leases released if that is wanted: its last requests leave some as well."""
    if args.release:
        client.revoke(args.engine, timeout=args.timeout)
    listed = client.list_engines(include_lost=True, timeout=args.timeout)
    return next((engine for engine in listed if engine.ref.engine_id == args.engine), None)


def _busy(engine: Engine | None) -> bool:
    """Whether anybody would miss it. One that is gone keeps nothing."""
    return engine is not None and bool(engine.leased_blocks or engine.load.running or engine.load.waiting)


def _tell(args: argparse.Namespace, engine: Engine | None) -> None:
    if args.json:
        print_json({"engine_id": args.engine, "engine": engine})
    elif args.undo:
        print("takes new turns again")
    elif engine is None:
        print("drained, and gone")
    else:
        requests = engine.load.running + engine.load.waiting
        print(f"drained; {requests} requests and {engine.leases} leases of {engine.leased_blocks} blocks left")
