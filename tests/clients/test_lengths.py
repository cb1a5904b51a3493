"""One way to write a length of time."""

import pytest

from kvlease.client.lengths import seconds, written


@pytest.mark.parametrize(
    ("text", "length"),
    [("12s", 12.0), ("50ms", 0.05), ("1m", 60.0), ("1h", 3600.0), ("1.5s", 1.5), ("20us", 20e-6), ("0s", 0.0)],
)
def test_a_length_has_a_number_and_a_unit(text: str, length: float) -> None:
    assert seconds(text) == pytest.approx(length)


@pytest.mark.parametrize("text", ["", "12", "s", "-1s", "1 s", "1d", "1s ", "1e3s", "1m30s", "inf"])
def test_anything_else_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match='write "12s"'):
        seconds(text)


@pytest.mark.parametrize("length", [0.0, 1e-6, 2e-5, 0.001, 0.05, 1.0, 12.5, 3600.0])
def test_what_is_written_is_read(length: float) -> None:
    assert seconds(written(length)) == pytest.approx(length)
