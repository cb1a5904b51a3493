"""How log lines look."""

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from kvlease.rpc.logging import LogFormat, configure


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def logged(stream: io.StringIO, style: LogFormat = LogFormat.AUTO) -> str:
    configure(style, stream=stream)
    structlog.get_logger().info("lease granted", lease="l1")
    return stream.getvalue()


def test_lines_are_json_where_nobody_looks() -> None:
    line = json.loads(logged(io.StringIO()))

    assert (line["event"], line["lease"], line["level"]) == ("lease granted", "l1", "info")


def test_lines_are_for_people_on_a_terminal() -> None:
    assert not logged(Terminal()).startswith("{")


def test_a_format_that_was_asked_for_wins() -> None:
    assert logged(Terminal(), LogFormat.JSON).startswith("{")
    assert not logged(io.StringIO(), LogFormat.HUMAN).startswith("{")


def test_a_traceback_is_a_field_of_its_line() -> None:
    out = io.StringIO()
    configure(LogFormat.JSON, stream=out)

    structlog.get_logger().error("call failed", exc_info=ValueError("why"))

    assert "ValueError: why" in json.loads(out.getvalue())["exception"]


def test_a_traceback_shows_nothing_that_variables_hold() -> None:
    out, token = io.StringIO(), "kvk_" + "secret"
    configure(LogFormat.HUMAN, stream=out)
    try:
        int(token[:0])
    except ValueError:
        structlog.get_logger().exception("call failed")

    assert "invalid literal" in out.getvalue()
    assert token not in out.getvalue()
