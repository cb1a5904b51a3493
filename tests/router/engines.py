"""Engines for tests, described by what matters in them."""

from random import Random
from typing import Any

from kvlease.router.engine import Candidate, Engine, EngineKey, Layout, Load, Role
from kvlease.router.picker import Picker

MODEL = "m"
LAYOUT = Layout("0.29.0", "layout-a", "k")
OTHER_LAYOUT = Layout("0.32.0", "layout-a", "k")
OTHER_KEY = Layout("0.29.0", "layout-a", "other")


def engine(name: str, role: Role = Role.DECODE, **changes: Any) -> Engine:
    """Returns an idle, healthy engine; the load's words (running, waiting, ...) may be given like its other fields."""
    load = {word: changes.pop(word) for word in Load._fields if word in changes}
    fields: dict[str, Any] = {
        "key": key(name),
        "role": role,
        "models": frozenset({MODEL}),
        "http_url": f"http://{name}:8000",
        "rank": 0,
        "ranks": 1,
        "layout": LAYOUT,
        "bidirectional": True,
        "total_blocks": 100,
        "healthy": True,
        "draining": False,
        "load": Load(**{"running": 0, "waiting": 0, "free_blocks": 100, "leased_blocks": 0} | load),
        "silent": 0.0,
    }
    return Engine(**fields | changes)


def prefill(name: str, **changes: Any) -> Engine:
    return engine(name, Role.PREFILL, **changes)


def both(name: str, **changes: Any) -> Engine:
    return engine(name, Role.BOTH, **changes)


def key(name: str) -> EngineKey:
    return EngineKey(name, f"{name}-1")


def candidate(name: str, unseen: int = 0, **changes: Any) -> Candidate:
    return Candidate(engine(name, **changes), unseen)


def picker(seed: int = 0) -> Picker:
    return Picker(Random(seed))
