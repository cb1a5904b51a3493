"""`kvlease up`: registry, router and gateway in one process, and engines beside them if asked for."""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kvlease.cli.command import FAILED, OK, Subparsers
from kvlease.cli.command import add_parser as add
from kvlease.cli.knocking import listens
from kvlease.cli.telling import Telling
from kvlease.client.channel import DEFAULT_REGISTRY, DEFAULT_ROUTER
from kvlease.client.lengths import written
from kvlease.local import install, model
from kvlease.local.engine import Engine, EngineFailed
from kvlease.local.fleet import Fleet, plan
from kvlease.local.install import EngineUnavailable
from kvlease.local.launch import ControlPlane, Launch, Role
from kvlease.registry.rules import Rules
from kvlease.rpc import Protection, tracing
from kvlease.rpc.options import length

if TYPE_CHECKING:
    from kvlease.cli import embedded

WRONG = 2
_KNOCK = 1.0  # seconds
DEFAULT_GATEWAY = "127.0.0.1:8440"


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease up
        kvlease up --engines sim
        kvlease up --engines cpu
        kvlease up --engines cpu --prefill 1 --decode 2 --vllm 0.32.0 --no-prefill-prefix-caching
    """
    parser = add(subparsers, "up", "run registry, router and gateway, until Ctrl-C", run, examples=examples)
    option = parser.add_argument
    option("--gateway", default=DEFAULT_GATEWAY, metavar="HOST:PORT", help=f"for clients; default {DEFAULT_GATEWAY}")
    option("--registry", default=DEFAULT_REGISTRY, metavar="HOST:PORT", help=f"default {DEFAULT_REGISTRY}")
    option("--router", default=DEFAULT_ROUTER, metavar="HOST:PORT", help=f"default {DEFAULT_ROUTER}")
    kinds = "cpu: vLLM on CPU with a tiny model; sim: engines that only pretend; else engines come from elsewhere"
    option("--engines", choices=["cpu", "sim"], help=kinds)
    option("--prefill", type=_count, default=1, metavar="N", help="prefill engines; default 1")
    option("--decode", type=_count, default=1, metavar="N", help="decode engines; default 1")
    option("--vllm", choices=install.VERSIONS, default=install.DEFAULT, help=f"default {install.DEFAULT}")
    option("--no-prefill-prefix-caching", action="store_true", help="so that decode alone has a conversation's history")
    pool = "KV blocks in each engine's pool; default: 2048 of 128 tokens on CPU, 4096 of 16 simulated"
    option("--blocks", type=_count, metavar="N", help=pool)
    waits = "most that the control plane may add to a request; default 50ms"
    option("--wait", type=length, default="50ms", metavar="TIME", help=waits)
    rules, lives = Rules(), "how long a lease lives unrenewed after"
    for flag, what, ttl in (
        ("--answered-ttl", "an answer", rules.answered_ttl),
        ("--tools-ttl", "tools were called", rules.tools_ttl),
    ):
        told = f"{lives} {what}; default {written(ttl)}"
        option(flag, type=length, default=written(ttl), metavar="TIME", help=told)
    option("--logs", type=Path, metavar="DIR", help="where logs go; default: the user's cache folder")
    option(
        "--insecure", action="store_true", help="serve without encryption on other than this machine's own addresses"
    )
    option("--json", action="store_true", help="print events as JSON lines")


def run(args: argparse.Namespace) -> int:
    """Serves until SIGINT or SIGTERM. Gives 1 when something failed, 2 when it cannot be started as asked."""
    from kvlease.cli import embedded  # noqa: PLC0415 - servers, which no other command needs

    try:
        tracing.check(os.environ)
        protection = Protection(insecure=args.insecure)
        rules = Rules(answered_ttl=args.answered_ttl, tools_ttl=args.tools_ttl)
        services = embedded.Services(args.registry, args.router, args.gateway, args.wait, rules, protection)
        with Telling(as_json=args.json, model=model.NAME if args.engines else "") as tell:
            embedded.serve_until_signal(services, _engines(args), tell, log=_log(args))
    except (ValueError, EngineUnavailable) as error:
        return _fail(error, WRONG)
    except EngineFailed as error:
        return _fail(error, FAILED)
    except OSError as error:
        return _fail(_taken(args) or error, FAILED)
    return OK


def _taken(args: argparse.Namespace) -> str:
    """Says which of the addresses another program has; empty: none."""
    for option in ("registry", "router", "gateway"):
        address = getattr(args, option)
        if listens(address, _KNOCK):
            return f"{address} is in use: is another kvlease running? --{option} chooses another"
    return ""


def _engines(args: argparse.Namespace) -> "embedded.Make | None":
    """What makes the engines that are asked for."""
    match args.engines:
        case "cpu":
            return _local(args)
        case "sim":
            return _simulated(args)
        case _:
            return None


def _local(args: argparse.Namespace) -> "embedded.Make":
    from kvlease.cli.local_engines import LocalEngines  # noqa: PLC0415 - only where they run

    installation, folder, logs = install.find(args.vllm), model.ensure(model.default_cache()), _logs(args)

    def fit(launch: Launch) -> Launch:
        caching = launch.role is Role.DECODE or not args.no_prefill_prefix_caching
        wait = {"KVLEASE_WAIT": written(args.wait)}
        return replace(launch, blocks=args.blocks, prefix_caching=caching, environment=wait)

    def engines(control: ControlPlane) -> LocalEngines:
        launches = plan(installation, folder, prefill=args.prefill, decode=args.decode, control=control)
        return LocalEngines(Fleet(Engine(fit(launch), logs=logs) for launch in launches))

    return engines


def _simulated(args: argparse.Namespace) -> "embedded.Make":
    from kvlease.cli import simulated_engines  # noqa: PLC0415 - likewise

    def engines(control: ControlPlane) -> simulated_engines.SimulatedEngines:
        settings = simulated_engines.plan(
            control,
            prefill=args.prefill,
            decode=args.decode,
            blocks=args.blocks,
            wait=args.wait,
            prefill_prefix_caching=not args.no_prefill_prefix_caching,
        )
        return simulated_engines.SimulatedEngines(settings, log=_log(args))

    return engines


def _log(args: argparse.Namespace) -> Path:
    """Where services log to, and simulated engines, which share their process."""
    return _logs(args) / "services.log"


def _logs(args: argparse.Namespace) -> Path:
    chosen: Path | None = args.logs
    return chosen or model.default_cache() / "logs" / args.gateway.replace(":", "-")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def _fail(error: Exception | str, code: int) -> int:
    print(f"kvlease: {error}", file=sys.stderr)
    return code
