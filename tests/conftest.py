"""What every test may use, and the mark of those that show a case of the fault matrix."""

from collections.abc import Callable
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, settings

# The same examples each time, however slow the machine; `--hypothesis-profile=search` looks further.
settings.register_profile("kvlease", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("search", settings.get_profile("kvlease"), derandomize=False, max_examples=1000)
settings.load_profile("kvlease")

Seen: TypeAlias = Callable[[str], None]


def pytest_configure(config: pytest.Config) -> None:
    """Makes the mark known."""
    config.addinivalue_line("markers", "case(*numbers): shows cases of tests/faults/cases.py; see `make faults`")


@pytest.fixture
def seen(record_property: Callable[[str, object], None]) -> Seen:
    """Notes what a test saw, for the fault matrix to print."""
    return lambda what: record_property("seen", what)
