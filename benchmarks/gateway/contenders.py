"""Who stands between client and engines."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.pinned import Served, python, serving
from benchmarks.report import ROOT
from kvlease.local import ports

DIRECT, PEER, OURS = "direct", "vllm-router", "kvlease"
ANYWHERE = ("--listen", "127.0.0.1:0")
_PEER = ROOT / ".venv-bench/bin/vllm-router"
_WAIT = ("--wait", "1s")  # a machine of two busy cores is not to decide which turns are routed


@dataclass(frozen=True, slots=True)
class Contender:
    """An address to ask at, and the processes whose CPU its answers cost: the front first."""

    name: str
    address: str
    processes: Sequence[Served]

    def cpu(self) -> list[float]:
        """Seconds of CPU that each of them has used."""
        return [process.cpu() for process in self.processes]


@contextmanager
def all_of_them(pace: float, core: int | None, beside: int | None) -> Iterator[list[Contender]]:
    """Serves engines of that pace (seconds per token), and every contender that there is before them.

    What is compared has *core*; engines, router and registry are on the other one.
    """
    two = r"ready engines ([\d.]+:\d+ [\d.]+:\d+)"
    with (
        serving("registry", python("kvlease.registry", *ANYWHERE), core=beside) as registry,
        serving(
            "engines", python("benchmarks.gateway.engine", str(pace), registry.address), core=beside, ready=two
        ) as engines,
        serving(
            "router", python("kvlease.router", *ANYWHERE, "--registry", registry.address, *_WAIT), core=beside
        ) as router,
        _gateway(router, registry, core=core) as gateway,
        _vllm_router(*engines.address.split(), core=core) as peer,
    ):
        yield [
            Contender(DIRECT, engines.address.split()[1], [engines]),
            *([Contender(PEER, peer.address, [peer])] if peer else []),
            Contender(OURS, gateway.address, [gateway, router, registry]),
        ]


@contextmanager
def _gateway(router: Served, registry: Served, *, core: int | None) -> Iterator[Served]:
    places = ("--router", router.address, "--registry", registry.address)
    with serving("gateway", python("kvlease.gateway", *ANYWHERE, *places, *_WAIT), core=core) as served:
        yield served


@contextmanager
def _vllm_router(prefill: str, decode: str, *, core: int | None) -> Iterator[Served | None]:
    if not _PEER.exists():
        yield None
        return
    port, metrics = ports.free(2)
    engines = ["--vllm-pd-disaggregation", "--prefill", f"http://{prefill}", "--decode", f"http://{decode}"]
    place = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(metrics)]
    command = [str(_PEER), *engines, "--policy", "round_robin", *place]
    with serving("vllm-router", command, core=core, ready=r"Starting server on ([\d.]+:\d+)") as served:
        yield served
