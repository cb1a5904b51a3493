"""What all turns share."""

from collections.abc import Callable
from dataclasses import dataclass

from kvlease.gateway.background import Background
from kvlease.gateway.directory import Directory
from kvlease.gateway.http.pool import Pool
from kvlease.gateway.metrics import Metrics
from kvlease.gateway.plan import Planner
from kvlease.gateway.settings import Settings
from kvlease.gateway.tickets import Tickets


@dataclass(frozen=True, slots=True, kw_only=True)
class Plane:
    """The parts that serve turns."""

    settings: Settings
    planner: Planner
    tickets: Tickets
    pool: Pool
    directory: Directory
    metrics: Metrics
    background: Background
    clock: Callable[[], float]
