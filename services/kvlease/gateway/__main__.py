"""Starts a gateway: `kvlease-gateway`. The only reader of the command line and the environment."""

import argparse
import asyncio
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import structlog
import uvloop

from kvlease.client.lengths import written
from kvlease.gateway.http.limits import Limits
from kvlease.gateway.service import create
from kvlease.gateway.settings import Settings
from kvlease.rpc import collector, stop_signal, tracing
from kvlease.rpc.logging import configure
from kvlease.rpc.options import Help, add_protection, add_security, length, protection, readable, security

log = structlog.get_logger()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until SIGTERM or SIGINT. Returns 2 for settings that cannot be, 1 for an address that is taken."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        settings = settings_from(given)
        tracing.check(os.environ)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    configure()
    try:
        uvloop.run(serve(settings))
    except OSError as error:
        log.error("gateway not started", error=str(error))  # noqa: TRY400 - the message says it all
        return 1
    return 0


async def serve(settings: Settings) -> None:
    """Serves until a signal comes, then drains."""
    stopped = asyncio.create_task(stop_signal())  # listens from before it is said that all is ready
    with tracing.exporting("kvlease-gateway", os.environ) as spans:
        async with create(settings, spans) as gateway:
            collector.settle()
            log.info(f"ready gateway {gateway.url}", router=settings.router)  # noqa: G004 - scripts wait for it
            received = await stopped
            log.info("gateway stopping", signal=received.name, grace=settings.grace)


def settings_from(given: argparse.Namespace) -> Settings:
    """Returns the settings. Raises ValueError for what cannot be, OSError for files that cannot be read."""
    values: dict[str, Any] = {name: value for name, value in vars(given).items() if value is not None}
    limits = {field.name: values[field.name] for field in fields(Limits) if field.name in values}
    kept = {field.name: values[field.name] for field in fields(Settings) if field.name in values}
    readable(engine_ca=given.engine_ca, engine_key_file=given.engine_key_file)
    if given.engine_key_file:
        kept["engine_key"] = given.engine_key_file.read_text().strip().encode()
    return Settings(**kept, limits=Limits(**limits), protection=protection(given), security=security(given))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kvlease-gateway",
        description='An OpenAI-compatible front over prefill and decode engines. Times: "12s", "50ms", "1m".',
        formatter_class=Help,
    )
    add, defaults = parser.add_argument, Settings()
    environment = os.environ
    add("--listen", default=defaults.listen, metavar="HOST:PORT", help="where to serve")
    for name in ("router", "registry"):
        variable = f"KVLEASE_{name.upper()}"
        default = environment.get(variable, getattr(defaults, name))
        add(f"--{name}", default=default, metavar="HOST:PORT", help=f"where the {name} is; or ${variable}")
    for name, meaning in (
        ("wait", "most that the control plane may add to one try of a request"),
        ("connect-timeout", "to connect to an engine"),
        ("silence-timeout", "how long an engine may owe an answer and send nothing; for ever if not given"),
        ("lease-ttl", "shortest life of an unrenewed lease; renewed every third of it"),
        ("memory", "how long an engine is tried that the registry has forgotten"),
        ("grace", "what answers in flight get when stopping"),
    ):
        default = getattr(defaults, name.replace("-", "_"))
        shown = None if math.isinf(default) else written(default)
        add(f"--{name}", type=length, default=shown, metavar="TIME", help=meaning)
    add("--retries", type=int, default=defaults.retries, metavar="N", help="other decode engines to try")
    add(
        "--sequential-dispatch",
        dest="concurrent_dispatch",
        action="store_false",
        help="send decode its request once prefill is done, not at the same time",
    )
    for name, meaning in (
        ("head-bytes", "longest request line and headers"),
        ("body-bytes", "longest body"),
        ("connections", "most connections at a time"),
    ):
        add(f"--{name}", type=int, default=getattr(Limits(), name.replace("-", "_")), metavar="N", help=meaning)
    add("--engine-ca", type=Path, metavar="FILE", help="authorities (PEM) of engines with HTTPS; else the system's")
    add("--engine-key-file", type=Path, metavar="FILE", help="API key to show to engines, in place of the client's")
    add_protection(parser, http=True)
    add_security(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
