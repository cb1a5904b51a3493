"""Looks for a life in which a law does not hold."""

import random
import uuid
from collections.abc import Sequence

import hypothesis
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.protocol.faults import CLIMATES
from tests.protocol.machine import ProtocolMachine

STEPS = 40
"""Of one life."""


def search(lives: int, *, climates: Sequence[str] = (), seed: int | None = None, shrink: bool = True) -> None:
    """Lives so many lives, in these climates or in all. Raises what it finds, at its shortest if it is to *shrink*.

    Without a *seed* they are the same every time.
    """
    machine = type("ProtocolMachine", (ProtocolMachine,), {"climates": sorted(climates or CLIMATES)})
    if seed is not None:
        machine = hypothesis.seed(seed)(machine)
    how = settings(
        max_examples=lives,
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=seed is None,
        database=None,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],  # machines are
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uuid, "uuid4", _drawn)
        run_state_machine_as_test(machine, settings=how)


def _drawn() -> uuid.UUID:
    """An id that is the same every time, as all is that `random` gives: hypothesis sees to that."""
    return uuid.UUID(int=random.getrandbits(128), version=4)
