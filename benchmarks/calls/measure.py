"""Starts the servers, and lets them be called in turns."""

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import uvloop

from benchmarks.calls import peers
from benchmarks.calls.engine import Pair
from benchmarks.calls.loads import BATCH, Loads, Workers
from benchmarks.calls.wire import load
from benchmarks.catalogue import Unavailable
from benchmarks.codec.handle import Given
from benchmarks.pinned import Served, cores, on_core, python, serving
from benchmarks.sample import Samples, percentile, turns
from kvlease.registry.service import NAME as REGISTRY
from kvlease.v1.router_pb2_grpc import RoutingServiceStub

METHODS = ("grant", "claim + finish", "renew", f"renew x {BATCH}", "heartbeat", "route", "resolve")
ROUTERS = ("route", "resolve")
LEASES = 10_000
SEEN_WITHIN = 1.5  # seconds, within which a router has seen new engines
Key = tuple[str, str]


@dataclass(slots=True)
class Seen:
    """What was measured, by method (or peer's operation) and contender."""

    rates: Samples[Key] = field(default_factory=Samples)
    cpu: Samples[Key] = field(default_factory=Samples)
    p50: Samples[Key] = field(default_factory=Samples)
    p99: Samples[Key] = field(default_factory=Samples)
    peers: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def measure(*, rounds: int, seconds: float) -> Seen:
    """Measures all of it, each load so many seconds a round. Raises Unavailable."""
    seen = Seen()
    server, ours = cores()
    given = Given(24_000, 16_384)
    with _control_plane(server, ours) as plane, on_core(ours), _loads(plane, given) as loads:
        answers = _answers(loads, plane.registry, plane.router)
        with _echo(server, answers) as echo:
            for method in METHODS:
                mine = plane.router if method in ROUTERS else plane.registry
                for who in turns(("kvlease", "echo"), rounds):
                    loads.beat()
                    _one(seen, (method, who), mine if who == "kvlease" else echo, loads.methods[method](), seconds)
    with on_core(ours):
        for ask in (_etcd, _redis):
            try:
                ask(seen, server, ours, size=len(given.wire), rounds=rounds, seconds=seconds)
            except Unavailable as error:
                seen.missing.append(str(error))
    return seen


def _one(seen: Seen, key: Key, served: Served, workers: Workers, seconds: float, *, streams: bool = False) -> None:
    before = served.cpu()
    run = uvloop.run(load(served.address, workers, seconds, streams=streams))
    seen.rates.add(key, run.rate)
    seen.cpu.add(key, (served.cpu() - before) / len(run.latencies) * 1e6)
    seen.p50.add(key, percentile(run.latencies, 0.5) * 1e3)
    seen.p99.add(key, percentile(run.latencies, 0.99) * 1e3)


def _etcd(seen: Seen, server: int | None, _ours: int | None, *, size: int, rounds: int, seconds: float) -> None:
    grants, keeps = "etcd: grant + put", "etcd: keepalive"
    with peers.etcd(server) as etcd:
        for _ in range(rounds):
            _one(seen, (grants, "peer"), etcd, peers.grants_with_put(size), seconds)
            _one(seen, (keeps, "peer"), etcd, peers.keepalives(), seconds, streams=True)
    pairs = seen.rates.of[grants, "peer"].values
    pairs[:] = [rate / 2 for rate in pairs]  # two calls each
    seen.peers += [grants, keeps]


def _redis(seen: Seen, server: int | None, ours: int | None, *, size: int, rounds: int, seconds: float) -> None:
    for _ in range(rounds):
        for name, rate in peers.redis(server, ours, size, seconds).items():
            seen.rates.add((f"redis: {name}", "peer"), rate)
    seen.peers += ["redis: set", "redis: expire"]


@dataclass(frozen=True, slots=True)
class _Plane:
    """Who is measured, and the router's own registry beside the load: what that is asked is not the router's work."""

    registry: Served
    router: Served
    beside: Served


@contextmanager
def _control_plane(server: int | None, ours: int | None) -> Iterator[_Plane]:
    anywhere = ("--listen", "127.0.0.1:0")
    with (
        serving("registry", python("kvlease.registry", *anywhere), core=server) as registry,
        serving("router's registry", python("kvlease.registry", *anywhere), core=ours) as beside,
        serving(
            "router", python("kvlease.router", *anywhere, "--registry", beside.address, "--wait", "1s"), core=server
        ) as router,
    ):
        yield _Plane(registry, router, beside)


@contextmanager
def _loads(plane: _Plane, given: Given) -> Iterator[Loads]:
    with (
        grpc.insecure_channel(plane.registry.address) as registry,
        grpc.insecure_channel(plane.beside.address) as beside,
        grpc.insecure_channel(plane.router.address) as router,
    ):
        loads = Loads(Pair.on(registry, given), Pair.on(beside, given), RoutingServiceStub(router), leases=LEASES)
        time.sleep(SEEN_WITHIN)
        yield loads


def _answers(loads: Loads, registry: Served, router: Served) -> dict[str, str]:
    """One real answer of each method, for the echo."""
    answers: dict[str, str] = {}
    with grpc.insecure_channel(registry.address) as one, grpc.insecure_channel(router.address) as other:
        for make in loads.methods.values():
            loads.beat()
            calls = make()[0]
            for _ in range(2):
                path, message = next(calls)
                channel = one if REGISTRY.encode() in path else other
                call: Any = channel.unary_unary(path.decode())
                answers[path.decode()] = call(message).hex()
    return answers


@contextmanager
def _echo(server: int | None, answers: dict[str, str]) -> Iterator[Served]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "answers.json"
        file.write_text(json.dumps(answers))
        with serving("echo", python("benchmarks.calls.echo", str(file)), core=server) as served:
            yield served
