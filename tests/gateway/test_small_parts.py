"""Budget, renewals, outcomes, metrics: each alone."""

import pytest

from kvlease.gateway.budget import Budget
from kvlease.gateway.metrics import Metrics
from kvlease.gateway.outcome import finish_reasons, stop_reason
from kvlease.gateway.renewal import InFlight
from kvlease.v1 import lease_pb2
from tests.support.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_a_budget_is_spent_only_while_something_is_waited_for(clock: FakeClock) -> None:
    budget = Budget(0.05, clock)

    with budget.spend() as left:
        clock.advance(0.03)
    clock.advance(60.0)

    assert left == 0.05
    assert budget.left == pytest.approx(0.02)
    with budget.spend():
        clock.advance(1.0)
    assert budget.left == 0.0


def test_a_conversation_is_renewed_at_once_and_then_every_interval(clock: FakeClock) -> None:
    in_flight = InFlight(20.0, clock)

    with in_flight.holding("t", "a"), in_flight.holding("t", "a"), in_flight.holding("u", "a"):
        assert in_flight.take_due() == {"t": ["a"], "u": ["a"]}
        assert in_flight.take_due() == {}
        clock.advance(20.0)
        assert in_flight.take_due() == {"t": ["a"], "u": ["a"]}


def test_a_conversation_is_renewed_until_its_last_request_ends(clock: FakeClock) -> None:
    in_flight = InFlight(20.0, clock)

    with in_flight.holding("t", "a"):
        with in_flight.holding("t", "a"):
            in_flight.take_due()
        clock.advance(20.0)
        assert in_flight.take_due() == {"t": ["a"]}
    clock.advance(20.0)
    assert in_flight.take_due() == {}


@pytest.mark.parametrize(
    ("reasons", "names_tool", "stopped"),
    [
        ({"stop"}, False, lease_pb2.STOP_REASON_ANSWERED),
        ({"stop"}, True, lease_pb2.STOP_REASON_TOOLS_CALLED),
        ({"length"}, True, lease_pb2.STOP_REASON_LENGTH),
        ({"stop", "length"}, False, lease_pb2.STOP_REASON_ANSWERED),
        ({"length", "tool_calls"}, False, lease_pb2.STOP_REASON_TOOLS_CALLED),
        ({"content_filter"}, False, lease_pb2.STOP_REASON_ANSWERED),
    ],
)
def test_of_several_choices_the_longest_lease_wins(
    reasons: set[str], names_tool: bool, stopped: lease_pb2.StopReason.ValueType
) -> None:
    assert stop_reason(reasons, names_tool=names_tool) == stopped


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"choices":[]}', b'{"choices":[{"finish_reason":null}]}'])
def test_what_does_not_end_is_no_answer(body: bytes) -> None:
    assert finish_reasons(body) == set()


def test_reasons_of_misses_are_bounded_as_labels(clock: FakeClock) -> None:
    metrics = Metrics(clock)
    for number in range(1000):
        metrics.prefilled(lease_pb2.PrefillReport(miss_reason=f"{number} {'x' * 500}"))

    lines = [line for line in metrics.exposition().decode().splitlines() if "misses_total{" in line]
    assert len(lines) <= 33
    assert max(map(len, lines)) < 200


def test_what_the_status_page_follows_is_what_was_counted(clock: FakeClock) -> None:
    metrics = Metrics(clock)
    metrics.prefilled(
        lease_pb2.PrefillReport(reused_tokens=5, local_tokens=3, computed_tokens=2, miss_reason="NO_MATCH")
    )
    metrics.prefilled(lease_pb2.PrefillReport(miss_reason="FIRST_TURN"))
    metrics.first_byte(clock() - 0.25)

    totals = metrics.totals()
    assert totals.tokens == {"reused": 5, "local": 3, "computed": 2}
    assert [count for bound, count in totals.first_byte if bound in {0.2, 0.3, 0.5}] == [0, 1, 1]
    assert totals.first_byte[-1] == (float("inf"), 1)
    assert metrics.misses() == {"NO_MATCH": 1}
