"""`kvlease sim-engine`: engines without a model, for load, fault and scale tests."""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import MISSING, fields
from errno import EADDRINUSE
from typing import Any
from urllib.parse import urlsplit

from kvlease.cli.command import FAILED, OK, Subparsers, at_least_one
from kvlease.cli.command import add_parser as add
from kvlease.client.channel import DEFAULT_REGISTRY, DEFAULT_ROUTER
from kvlease.client.lengths import written
from kvlease.connector.settings import Settings as ConnectorSettings
from kvlease.connector.settings import SettingsError
from kvlease.rpc import address, stop_signal
from kvlease.rpc.logging import LogFormat, configure
from kvlease.rpc.options import Help, length
from kvlease.sim.latency import Latency
from kvlease.sim.scheduler import Limits
from kvlease.sim.settings import ROLES, Settings

MAX_PORT = 65535
_TIMES = {
    "step": "of every step of the scheduler",
    "prefill_token": "for each token of a prompt that is computed",
    "token": "of a step that decodes: the time per output token",
    "transfer": "of every read from another engine",
    "transfer_token": "for each token that is read",
}


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease sim-engine --role prefill --port 8100
        kvlease sim-engine --role decode --count 4 --port 8200 --blocks 2048 --token-time 20ms
        curl -d '{"freeze": 5}' http://127.0.0.1:8200/admin/faults
    """
    summary = "run simulated engines: the connector's own lease code before a pretended model"
    parser = add(subparsers, "sim-engine", summary, run, examples=examples)
    parser.formatter_class = _Help
    _add_place(parser)
    _add_engine(parser)


def run(args: argparse.Namespace) -> int:
    """Serves until SIGINT or SIGTERM."""
    configure(LogFormat(args.log_format), debug=args.debug)
    try:
        engines = settings_from(args, os.environ)
    except (ValueError, SettingsError) as error:
        print(f"kvlease sim-engine: {error}", file=sys.stderr)
        return 2
    import uvloop  # noqa: PLC0415 - only where engines run

    try:
        uvloop.run(_serve(engines, args.host, args.name))
    except OSError as error:
        taken = f"{args.host} has a port from {args.port} on in use: --port chooses others"
        print(f"kvlease sim-engine: {taken if error.errno == EADDRINUSE else error}", file=sys.stderr)
        return FAILED
    return OK


def settings_from(args: argparse.Namespace, environment: Mapping[str, str]) -> list[Settings]:
    """Returns the settings of each engine. Raises ValueError for what cannot be."""
    if not 0 <= args.port <= MAX_PORT or args.port + args.count - 1 > MAX_PORT:
        raise ValueError(f"--port must be from 0 to {MAX_PORT}, that of the last engine too")
    if not (args.insecure or address.is_local(f"{args.host}:{args.port}")):
        raise ValueError(f"{args.host} can be reached by others: give --insecure to allow that")
    latency = Latency(**{name: getattr(args, f"{name}_time") for name in _TIMES})
    limits = Limits(
        requests=args.max_num_seqs,
        tokens=args.max_num_batched_tokens,
        block_size=args.block_size,
        prefix_caching=args.prefix_caching,
    )
    return [
        Settings(
            role=args.role,
            host=args.host,
            port=args.port + number if args.port else 0,
            name=args.name,
            model=args.model,
            connector=_connector(args, environment, number),
            blocks=args.blocks,
            limits=limits,
            latency=latency,
            answer_tokens=args.answer_tokens,
        )
        for number in range(args.count)
    ]


def _connector(args: argparse.Namespace, environment: Mapping[str, str], number: int) -> ConnectorSettings:
    extra: dict[str, Any] = {"bidirectional_kv_xfer": args.bidirectional}
    given = {"kvlease_registry": args.registry, "kvlease_router": args.router, "kvlease_engine_id": args.engine_id}
    extra |= {name: value for name, value in given.items() if value}
    settings = ConnectorSettings.of(extra, environment)
    if not settings.engine_id or args.count == 1:
        return settings
    return ConnectorSettings.of(extra | {"kvlease_engine_id": f"{settings.engine_id}-{number}"}, environment)


async def _serve(engines: list[Settings], host: str, name: str) -> None:
    from kvlease.sim.fleet import Fleet  # noqa: PLC0415 - likewise

    stopped = asyncio.create_task(stop_signal())  # listens from before it is said that all is ready
    async with Fleet(engines, host=host, name=name) as fleet:
        for instance in fleet.instances:
            print(f"ready {instance.url}", flush=True)
        await stopped


def _add_place(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("--role", choices=ROLES, default="both", help="what the engines may be used for")
    option("--count", type=at_least_one, default=1, metavar="N", help="engines in this process, on consecutive ports")
    option("--host", default="127.0.0.1", help="where to listen")
    option("--name", default=_name(os.environ), metavar="HOST", help="by which others reach it; else --host")
    option("--port", type=int, default=8100, help="of the first engine; 0: any free ones")
    option("--engine-id", default="", help="$KVLEASE_ENGINE_ID; of several, each gets a number; else name and port")
    option("--model", default=_default(Settings, "model"), help="the name that they answer to")
    option("--registry", default="", metavar="HOST:PORT", help=f"$KVLEASE_REGISTRY, or {DEFAULT_REGISTRY}")
    option("--router", default="", metavar="HOST:PORT", help=f"$KVLEASE_ROUTER, or {DEFAULT_ROUTER}")
    option("--insecure", action="store_true", help="listen on other than this machine's own addresses")
    option("--log-format", choices=[x.value for x in LogFormat], default=LogFormat.AUTO.value, help="of standard error")
    option("--debug", action="store_true", help="log more")


def _add_engine(parser: argparse.ArgumentParser) -> None:
    option = parser.add_argument
    option("--blocks", type=int, default=_default(Settings, "blocks"), metavar="N", help="KV blocks in the pool")
    option("--block-size", type=int, default=_default(Limits, "block_size"), metavar="TOKENS", help="divides 128")
    option("--max-num-seqs", type=int, default=_default(Limits, "requests"), metavar="N", help="requests in a batch")
    most = _default(Limits, "tokens")
    option("--max-num-batched-tokens", type=int, default=most, metavar="N", help="tokens that a step computes")
    option("--prefix-caching", action=argparse.BooleanOptionalAction, default=True, help="keep full blocks to be found")
    bidirectional = "keep KV for later turns, and read it back"
    option("--bidirectional", action=argparse.BooleanOptionalAction, default=True, help=bidirectional)
    words = _default(Settings, "answer_tokens")
    option("--answer-tokens", type=int, default=words, metavar="N", help="of an answer that is not cut short")
    for name, meaning in _TIMES.items():
        flag = f"--{name.replace('_', '-')}-time"
        option(flag, type=length, default=written(_default(Latency, name)), metavar="TIME", help=meaning)


def _name(environment: Mapping[str, str]) -> str:
    """Returns the host of the URL that a real engine would be reached at."""
    return urlsplit(environment.get("KVLEASE_HTTP_URL", "")).hostname or ""


def _default(settings: Any, name: str) -> Any:
    """Returns the default of a field; a class with slots does not show it otherwise."""
    found = next(field.default for field in fields(settings) if field.name == name)
    if found is MISSING:
        raise AttributeError(name)
    return found


class _Help(Help, argparse.RawDescriptionHelpFormatter):
    """Leaves the examples as they are."""
