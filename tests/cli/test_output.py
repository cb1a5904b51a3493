import pytest

from kvlease.cli.output import length


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0.0, "0.0s"), (9.94, "9.9s"), (10.0, "10s"), (59.4, "59s"), (59.6, "1m00s"), (200.0, "3m20s"), (7500.0, "2h05m")],
)
def test_a_duration_is_written_for_people(seconds: float, written: str) -> None:
    assert length(seconds) == written
