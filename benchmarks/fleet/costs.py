"""What calls cost on this machine, measured on real processes: the numbers that the model of a fleet is made of."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass

import grpc
import uvloop

from benchmarks.calls.engine import Pair
from benchmarks.calls.loads import Loads
from benchmarks.calls.wire import load
from benchmarks.codec.handle import Given
from benchmarks.pinned import Served, cores, on_core, python, serving
from kvlease.local import ports
from kvlease.v1.router_pb2_grpc import RoutingServiceStub

ANYWHERE = ("--listen", "127.0.0.1:0")
REGISTRY = ("grant", "claim + finish", "heartbeat")
ROUTER = ("route", "resolve")


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of one core, of one call each."""

    grant: float
    claim: float
    """A claim, or its end: both together, halved."""
    heartbeat: float
    locate: float
    """A conversation that is looked for, among others in one call."""
    route: float
    resolve: float
    store: float
    """What the shared store spends on a call of a registry; 0: there is none."""

    def facts(self) -> dict[str, float]:
        """Microseconds, for the results' file."""
        return {f"{name}, us": seconds * 1e6 for name, seconds in asdict(self).items()}


def measure(*, shared: bool, seconds: float) -> Costs:
    """Loads a router and a registry, the latter in memory or over a shared Redis, method by method."""
    server, ours = cores()
    with ExitStack() as stack, on_core(ours):
        store = stack.enter_context(_redis(ours)) if shared else None
        flags = ("--store", f"redis://{store.address}") if store else ()
        registry = stack.enter_context(serving("registry", python("kvlease.registry", *ANYWHERE, *flags), core=server))
        where = ("--registry", registry.address, "--wait", "1s")
        router = stack.enter_context(serving("router", python("kvlease.router", *ANYWHERE, *where), core=server))
        loads = stack.enter_context(_loads(registry, router))
        costs: dict[str, float] = {}
        stores = []
        for method in (*REGISTRY, *ROUTER):
            loads.beat()
            watched = [router if method in ROUTER else registry, registry, *([store] if store else [])]
            spent, calls = _spent(watched, loads, method, seconds)
            costs[method] = spent[0] / calls
            if method == "route":
                costs["locate"] = spent[1] / calls
            elif store and method in REGISTRY:
                stores.append(spent[2] / calls)
        return Costs(
            grant=costs["grant"],
            claim=costs["claim + finish"],
            heartbeat=costs["heartbeat"],
            locate=costs["locate"],
            route=costs["route"],
            resolve=costs["resolve"],
            store=sum(stores) / len(stores) if stores else 0.0,
        )


def _spent(watched: list[Served], loads: Loads, method: str, seconds: float) -> tuple[list[float], int]:
    before = [each.cpu() for each in watched]
    run = uvloop.run(load(watched[0].address, loads.methods[method](), seconds))
    return [each.cpu() - first for each, first in zip(watched, before, strict=True)], len(run.latencies)


@contextmanager
def _loads(registry: Served, router: Served) -> Iterator[Loads]:
    with grpc.insecure_channel(registry.address) as one, grpc.insecure_channel(router.address) as other:
        pair = Pair.on(one, Given(24_000, 16_384))
        loads = Loads(pair, pair, RoutingServiceStub(other), leases=1_000)
        time.sleep(1.5)  # until the router has seen the engines
        yield loads


@contextmanager
def _redis(core: int | None) -> Iterator[Served]:
    (port,) = ports.free(1)
    with tempfile.TemporaryDirectory() as folder:
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        with serving("redis", command, core=core, ready=r"Ready to accept connections|ready to accept") as served:
            served.address = f"127.0.0.1:{port}"
            yield served
