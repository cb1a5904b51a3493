"""Starts a registry: `kvlease-registry`. The only reader of the command line."""

import argparse
import os
import sys
from collections.abc import Sequence

import structlog
import uvloop

from kvlease.client.lengths import written
from kvlease.registry.errors import StoreUnreachable
from kvlease.registry.rules import Rules, Timing
from kvlease.registry.service import create
from kvlease.registry.settings import AUTO, Settings
from kvlease.registry.stores import VALUES
from kvlease.rpc import Server, collector, scheduling, telemetry, tracing
from kvlease.rpc.logging import LogFormat, configure
from kvlease.rpc.options import Help, add_metrics, add_protection, length, protection

log = structlog.get_logger()

TIMES = (
    ("heartbeat", "between two heartbeats of an engine"),
    ("hold", "how long an engine keeps its blocks after the last answer it received"),
    ("claim", "longest a reader's claim lasts without renewal"),
    ("margin", "kept free between a claim's end and the end of hold"),
    ("least_claim", "a claim that could only be shorter is refused"),
)
LIVES = (
    ("answered_ttl", "how long a lease lives unrenewed after an answer"),
    ("tools_ttl", "the same after an answer that calls tools"),
    ("prefill_ttl", "how long prefill's blocks wait for decode"),
    ("longest_life", "how long a lease lives however often it is renewed"),
    ("grant_due", "how long after a turn's end claims may wait for its grant"),
    ("tombstone", "how long ids of what is over are remembered, so that a late call cannot bring it back"),
    ("turn_memory", "how long a turn that nobody ended is remembered"),
)
COUNTS = (
    ("branches", "live leases of one conversation"),
    ("tenant_leases", "live leases of one tenant; 0: no limit"),
    ("missed_heartbeats", "so many heartbeats late, an engine counts as unhealthy"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves until SIGTERM or SIGINT. Returns 2 for settings that cannot be, 1 for what is not there or taken."""
    parser = _parser()
    given = parser.parse_args(arguments)
    configure(LogFormat(given.log_format), debug=given.debug)
    try:
        settings = settings_from(given)
        tracing.check(os.environ)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    scheduling.take_turns()
    try:
        uvloop.run(serve(settings))
    except (OSError, ValueError, StoreUnreachable) as error:
        cause = {"cause": str(error.__cause__)} if error.__cause__ else {}
        log.error("registry not started", error=str(error), **cause)  # noqa: TRY400 - it says it all
        return 1
    return 0


async def serve(settings: Settings) -> None:
    """Serves until a signal comes, then drains."""
    with telemetry.served(settings.metrics) as seen, tracing.exporting("kvlease-registry", os.environ) as spans:
        metrics = seen.registry if seen else None
        async with (
            create(settings, metrics) as service,
            Server(settings.listen, [service], settings.protection, seen, spans) as server,
        ):
            collector.settle()
            ready = f"ready registry {server.address}"  # scripts wait for it
            where = {"metrics": seen.address} if seen else {}
            await server.serve_until_signal(settings.grace, lambda: log.info(ready, **where))


def settings_from(given: argparse.Namespace) -> Settings:
    """Returns the settings. Raises ValueError for what cannot be, OSError for files that cannot be read."""
    return Settings(
        listen=given.listen,
        store=given.store,
        store_prefix=given.store_prefix,
        store_timeout=given.store_timeout,
        rules=Rules(
            timing=Timing(**{name: getattr(given, name) for name, _ in TIMES}),
            retention=given.retention,
            **{name: getattr(given, name) for name, _ in (*LIVES, *COUNTS)},
        ),
        value=given.value,
        patience=given.patience,
        watch_limit=given.watch_limit,
        grace=given.grace,
        metrics=given.metrics,
        protection=protection(given),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kvlease-registry",
        description='Leases decode KV blocks to conversations. Times are written "12s", "500ms", "8m" or "1h".',
        formatter_class=Help,
    )
    add, defaults = parser.add_argument, Settings()
    add("--listen", default=defaults.listen, metavar="HOST:PORT", help='where to serve; also "unix:PATH"')
    store = (
        'where leases are kept: "memory", or redis://... (rediss://, unix://) for several registries; $KVLEASE_STORE'
    )
    add("--store", default=os.environ.get("KVLEASE_STORE", defaults.store), metavar="URL[,URL]", help=store)
    add("--store-prefix", default=defaults.store_prefix, metavar="NAME", help="begins the names of all keys there")
    timeout = "what a call to the store may take"
    add("--store-timeout", type=length, default=written(defaults.store_timeout), metavar="TIME", help=timeout)
    for names, where in ((TIMES, defaults.rules.timing), (LIVES, defaults.rules)):
        for name, meaning in names:
            add(_flag(name), type=length, default=written(getattr(where, name)), metavar="TIME", help=meaning)
    for name, meaning in COUNTS:
        add(_flag(name), type=int, default=getattr(defaults.rules, name), metavar="N", help=meaning)
    retention = "share of an engine's KV blocks that conversations may keep"
    add("--retention", type=float, default=defaults.rules.retention, metavar="SHARE", help=retention)
    value = (
        "which leases go first: those not renewed for longest (recent), those to which fewest turns returned after "
        "such a wait (return), or those to which fewest can be expected to return, given each conversation's habits "
        "(habits; not in a shared store); auto: the last of these that the store has"
    )
    add("--value", choices=[AUTO, *VALUES], default=defaults.value, help=value)
    patience = (
        "with habits, keep a lease while a return is to be expected for so much keeping of a mean lease, instead of "
        "--answered-ttl and --tools-ttl; 0s: by those"
    )
    add("--patience", type=length, default=written(defaults.patience), metavar="TIME", help=patience)
    unread = "events that a watcher may leave unread"
    add("--watch-limit", type=int, default=defaults.watch_limit, metavar="N", help=unread)
    grace = "what running calls get when stopping"
    add("--grace", type=length, default=written(defaults.grace), metavar="TIME", help=grace)
    add("--log-format", choices=[x.value for x in LogFormat], default=LogFormat.AUTO.value, help="how log lines look")
    add("--debug", action="store_true", help="log every lease")
    add_metrics(parser)
    add_protection(parser)
    return parser


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


if __name__ == "__main__":
    sys.exit(main())
