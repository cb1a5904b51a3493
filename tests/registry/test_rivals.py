"""Two processes with one engine id are named; restarts are none."""

import pytest
from structlog.testing import capture_logs

from kvlease.registry.lease import EngineRef
from kvlease.registry.rivals import LASTS, Rivals
from kvlease.v1 import registry_pb2
from tests.registry.messages import engine, opened, served
from tests.support.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def rivals(clock: FakeClock) -> Rivals:
    return Rivals(clock)


def test_one_that_comes_back_after_it_was_displaced_has_a_rival(rivals: Rivals) -> None:
    with capture_logs() as logs:
        for incarnation in ("a", "b", "a", "b"):
            rivals.opened(EngineRef("d0", incarnation), f"http://{incarnation}")

    assert rivals.of("d0") == "http://a"
    (told,) = logs
    assert (told["log_level"], told["engine"], told["urls"]) == ("warning", "d0", ("http://a", "http://b"))


def test_restarts_and_lost_sessions_are_no_rivals(rivals: Rivals) -> None:
    with capture_logs() as logs:
        for incarnation in ("a", "a", "b", "b", "c", "c"):
            rivals.opened(EngineRef("d0", incarnation), "http://d0")

    assert (rivals.of("d0"), logs) == ("", [])


def test_a_rival_is_told_of_for_a_while(rivals: Rivals, clock: FakeClock) -> None:
    for incarnation in ("a", "b", "a"):
        rivals.opened(EngineRef("d0", incarnation), f"http://{incarnation}")

    clock.advance(LASTS)

    assert rivals.of("d0") == ""


def test_of_many_engines_the_last_are_remembered(rivals: Rivals) -> None:
    for number in range(5000):
        rivals.opened(EngineRef(f"d{number}", "a"), "http://d")
    rivals.opened(EngineRef("d4999", "b"), "http://other")
    rivals.opened(EngineRef("d4999", "a"), "http://d")

    assert rivals.of("d4999") == "http://other"


async def test_engines_are_listed_with_their_rival() -> None:
    async with served() as (_, registry):
        for incarnation in ("1", "2", "1"):
            await registry.OpenSession(registry_pb2.OpenSessionRequest(engine=engine("d0", incarnation)))
        await opened(registry, "p0")
        listed = await registry.ListEngines(registry_pb2.ListEnginesRequest())

    assert [bool(status.rival_http_url) for status in listed.engines] == [True, False]
