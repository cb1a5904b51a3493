"""Calls of registry and router: how many one core serves, beside a server that only echoes, beside etcd and Redis."""

from typing import Any

from benchmarks.calls.loads import BATCH, CONCURRENCY
from benchmarks.calls.measure import LEASES, METHODS, Seen, measure
from benchmarks.catalogue import Options
from benchmarks.figure import Figure
from benchmarks.picture import draw
from benchmarks.report import Report

SUMMARY = "calls of registry and router, against an echo servicer, etcd and Redis"
ECHO_SHARE = 0.85


def run(options: Options) -> Report:
    """Measures method by method, contenders in turns."""
    seen = measure(rounds=1 if options.smoke else 3, seconds=0.2 if options.smoke else 1.5)
    draw("calls", lambda axes: _paint(axes, seen), folder=options.results)
    return Report(
        bench="calls",
        columns=["method", "calls/s", "of the echo's", "us of CPU", "echo's", "p50, ms", "p99, ms"],
        rows=[
            [
                method,
                seen.rates.median((method, "kvlease")),
                seen.rates.ratio((method, "kvlease"), (method, "echo")),
                seen.cpu.median((method, "kvlease")),
                seen.cpu.median((method, "echo")),
                seen.p50.median((method, "kvlease")),
                seen.p99.median((method, "kvlease")),
            ]
            for method in METHODS
        ]
        + [[name, seen.rates.median((name, "peer"))] + [""] * 5 for name in seen.peers],
        figures=_figures(seen),
        facts={
            "calls/s": seen.rates.facts(),
            "us of CPU": seen.cpu.facts(),
            "concurrency": CONCURRENCY,
            "leases of the engine whose heartbeats are counted": LEASES,
        },
        notes=(
            f"One core for the server, {CONCURRENCY} calls at a time, handles of 24,000 tokens; the router's registry",
            "is on the load's core. echo: grpc.aio, uvloop and threads in turns as ours, no interceptor; it parses",
            f"requests and gives answers of the same size. renew x {BATCH}: one message for so many conversations.",
            *seen.missing,
            "etcd's files are in memory. Redis: redis-benchmark at the same concurrency, no durability.",
        ),
    )


def _figures(seen: Seen) -> list[Figure]:
    figures = [
        Figure(
            text=f"{method}: calls per second, of the echo's",
            value=seen.rates.ratio((method, "kvlease"), (method, "echo")),
            at_least=ECHO_SHARE,
        )
        for method in METHODS
        if method != f"renew x {BATCH}"  # a thousand renewals are no echo
    ]
    grants = seen.rates.ratio(("grant", "kvlease"), ("etcd: grant + put", "peer"))
    keeps = ("etcd: keepalive", "peer")
    beats = seen.rates.ratio(("heartbeat", "kvlease"), keeps) * LEASES
    batches = seen.rates.ratio((f"renew x {BATCH}", "kvlease"), keeps) * BATCH
    return [
        *figures,
        Figure(text="grants, of etcd's grant + put", value=grants, at_least=1.5),
        Figure(
            text="renewals by heartbeat, of etcd's keepalives",
            value=beats,
            at_least=300,
            note=f"an engine with {LEASES:,} leases; conversations by RenewLeases, {BATCH} a message: {batches:.0f}",
        ),
    ]


def _paint(axes: Any, seen: Seen) -> None:
    places = range(len(METHODS))
    for offset, who in ((-0.2, "kvlease"), (0.2, "echo")):
        heights = [seen.rates.median((method, who)) for method in METHODS]
        axes.bar([place + offset for place in places], heights, width=0.4, label=who)
    axes.set_xticks(list(places), METHODS, rotation=20)
    axes.set(ylabel="calls per second", title="One core for the server")
    axes.legend()
