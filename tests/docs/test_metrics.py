"""The page of metrics names what the services tell, and nothing else."""

import re
from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from kvlease.connector.counts import COUNTERS, GAUGES, HISTOGRAMS, PREFIX
from kvlease.gateway.metrics import Metrics as GatewayMetrics
from kvlease.registry.metrics import Metrics as RegistryMetrics
from kvlease.registry.rules import Rules
from kvlease.router.metrics import Metrics as RouterMetrics
from kvlease.rpc.telemetry import CallMetrics
from tests.registry.stores import MemoryWorlds
from tests.support.clock import FakeClock

PAGE = Path(__file__).parents[2] / "docs/metrics.md"


async def test_every_metric_is_documented_and_every_documented_one_is_told() -> None:
    clock, registry = FakeClock(), CollectorRegistry()
    RouterMetrics(registry)
    CallMetrics(registry)
    await RegistryMetrics(MemoryWorlds()(Rules()).store, registry, clock).look()
    exposed = generate_latest(registry).decode() + GatewayMetrics(clock).exposition().decode()
    typed = re.findall(r"^# TYPE (kvlease_\w+) ", exposed, re.MULTILINE)
    told = {name for name in typed if not name.endswith("_created")}  # the library's own
    told |= {f"{PREFIX}{name}_total" for name in COUNTERS} | {PREFIX + name for name in (*HISTOGRAMS, *GAUGES)}

    documented = set(re.findall(r"^\| `(kvlease_\w+)` \|", PAGE.read_text(), re.MULTILINE))

    assert documented == told
