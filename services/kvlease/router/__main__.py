"""Starts a router: `kvlease-router`. The only reader of the command line and the environment."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import structlog
import uvloop

from kvlease.client.lengths import written
from kvlease.router.overload import Overload
from kvlease.router.service import create
from kvlease.router.settings import Settings
from kvlease.rpc import Server, collector, scheduling, telemetry, tracing
from kvlease.rpc.logging import LogFormat, configure
from kvlease.rpc.options import Help, add_metrics, add_protection, add_security, length, protection, readable, security

KEY_VARIABLE = "KVLEASE_TICKET_KEY"

log = structlog.get_logger()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until SIGTERM or SIGINT. Returns 2 for settings that cannot be, 1 for an address that is taken."""
    parser = _parser()
    given = parser.parse_args(arguments)
    configure(LogFormat(given.log_format), debug=given.debug)
    try:
        settings = settings_from(given, os.environ)
        tracing.check(os.environ)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    scheduling.take_turns()
    try:
        uvloop.run(serve(settings))
    except OSError as error:
        log.error("router not started", error=str(error))  # noqa: TRY400 - the message says it all
        return 1
    return 0


async def serve(settings: Settings) -> None:
    """Serves until a signal comes, then drains."""
    with telemetry.served(settings.metrics) as seen, tracing.exporting("kvlease-router", os.environ) as spans:
        metrics = seen.registry if seen else None
        async with (
            create(settings, metrics) as service,
            Server(settings.listen, [service], settings.protection, seen, spans) as server,
        ):
            collector.settle()
            ready = f"ready router {server.address}"  # scripts wait for it
            where = {"registry": settings.registry} | ({"metrics": seen.address} if seen else {})
            await server.serve_until_signal(settings.grace, lambda: log.info(ready, **where))


def settings_from(given: argparse.Namespace, environment: Mapping[str, str]) -> Settings:
    """Returns the settings. Raises ValueError for what cannot be, OSError for a key file that cannot be read."""
    names = {field.name for field in fields(Settings)} & vars(given).keys()
    values: dict[str, Any] = {name: getattr(given, name) for name in names}
    readable(ticket_key_file=given.ticket_key_file)
    keys = _keys(given.ticket_key_file, environment)
    if keys:
        values |= {"ticket_key": keys[0], "other_ticket_keys": tuple(keys[1:])}
    return Settings(
        **values,
        overload=Overload(given.overload_backlog, given.overload_blocks),
        protection=protection(given),
        security=security(given, environment),
    )


def _keys(file: Path | None, environment: Mapping[str, str]) -> list[bytes]:
    """Reads the keys, one a line. Raises ValueError for a file that has none."""
    text = file.read_text() if file else environment.get(KEY_VARIABLE, "")
    keys = [line.strip().encode() for line in text.splitlines() if line.strip()]
    if file and not keys:
        raise ValueError(f"{file} has no key")
    return keys


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kvlease-router",
        description='Chooses prefill and decode for a turn, and hands out tickets. Times: "12s", "50ms", "1m".',
        formatter_class=Help,
    )
    add = parser.add_argument
    defaults = Settings()
    add("--listen", default=defaults.listen, metavar="HOST:PORT", help="where to serve")
    add(
        "--registry",
        default=os.environ.get("KVLEASE_REGISTRY", defaults.registry),
        metavar="HOST:PORT",
        help="where the registry is; or $KVLEASE_REGISTRY",
    )
    add(
        "--ticket-key-file",
        type=Path,
        metavar="FILE",
        help=f"keys of all routers, one a line: the first signs, all prove; or ${KEY_VARIABLE}; random if none",
    )
    for name, meaning in (
        ("wait", "most that the registry may add to a request"),
        ("refresh", "between two looks at the engines"),
        ("stale", "how long the engines last seen are used while the registry is away"),
        ("lifetime", "how long a ticket is good"),
        ("grace", "what running calls get when stopping"),
    ):
        add(f"--{name}", type=length, default=written(getattr(defaults, name)), metavar="TIME", help=meaning)
    for name, meaning in (("tickets", "turns remembered"), ("conversations", "conversations remembered")):
        add(f"--{name}", type=int, default=getattr(defaults, name), metavar="N", help=meaning)
    add(
        "--overload-backlog",
        type=int,
        default=defaults.overload.backlog,
        metavar="N",
        help="requests waiting more than elsewhere",
    )
    add(
        "--overload-blocks",
        type=float,
        default=defaults.overload.blocks,
        metavar="SHARE",
        help="KV blocks to be free at least",
    )
    add("--log-format", choices=[x.value for x in LogFormat], default=LogFormat.AUTO.value, help="how log lines look")
    add("--debug", action="store_true", help="log more")
    add_metrics(parser)
    add_protection(parser)
    add_security(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
