"""What a gateway counted, and what happened meanwhile."""

import math
from dataclasses import replace

import pytest

from kvlease.cli.traffic import Counters, between, of_tickets, quantile
from kvlease.gateway.metrics import Metrics
from kvlease.v1 import lease_pb2
from tests.cli.test_verdict import TURN, turn
from tests.support.clock import FakeClock


def counted(*, requests: int = 1, computed: int = 100, reused: int = 0, miss: str = "") -> Counters:
    """What a gateway's own metrics say after so many requests."""
    clock = FakeClock()
    metrics = Metrics(clock)
    for _ in range(requests):
        begun = clock()
        clock.advance(0.08)
        metrics.answered("/v1/chat/completions", 200)
        metrics.first_byte(begun)
        metrics.prefilled(
            lease_pb2.PrefillReport(
                prompt_tokens=computed + reused, reused_tokens=reused, computed_tokens=computed, miss_reason=miss
            )
        )
    metrics.answered("/health", 200)
    return Counters.of(metrics.exposition().decode())


def test_what_the_gateway_counts_is_read() -> None:
    counters = counted(requests=3, reused=300, miss="NO_MATCH")

    assert counters.requests == 3
    assert counters.tokens == {"reused": 900, "local": 0, "computed": 300}
    assert counters.misses == {"NO_MATCH": 3}


def test_only_what_happened_since_is_told() -> None:
    traffic = between(counted(requests=2), counted(requests=5, reused=100, miss="NO_LEASE"), 10.0)

    assert traffic.requests == 3
    assert traffic.tokens == {"computed": 300, "reused": 500}
    assert traffic.reuse == pytest.approx(500 / 800)
    assert traffic.misses == {"NO_LEASE": 5}
    assert traffic.ttft_median
    assert 0.05 <= traffic.ttft_median <= 0.1


def test_a_gateway_that_was_started_again_counts_from_its_start() -> None:
    assert between(counted(requests=5), counted(requests=2), 10.0).requests == 2


def test_without_requests_nothing_is_told() -> None:
    traffic = between(Counters(), Counters(), 0.0)

    assert (traffic.reuse, traffic.ttft_median) == (None, None)


@pytest.mark.parametrize(
    ("buckets", "share", "is_about"),
    [
        ({0.1: 10, 0.2: 20, math.inf: 20}, 0.5, 0.1),
        ({0.1: 0, 0.2: 20, math.inf: 20}, 0.5, 0.15),
        ({0.1: 0, 0.2: 0, math.inf: 20}, 0.5, 0.2),
        ({0.1: 10, math.inf: 10}, 1.0, 0.1),
    ],
)
def test_a_quantile_lies_within_its_bucket(buckets: dict[float, float], share: float, is_about: float) -> None:
    assert quantile(buckets, share) == pytest.approx(is_about)


def test_what_is_no_exposition_is_refused() -> None:
    with pytest.raises(ValueError, match="html"):
        Counters.of("<html>not what you want</html>")


def test_without_a_gateway_the_routers_turns_of_the_last_minute_tell() -> None:
    traffic = of_tickets(
        [turn(reused=500), turn(miss="NO_LEASE"), turn(miss="FIRST_TURN"), replace(TURN, age=90.0)], 60.0
    )

    assert traffic.requests == 3
    assert traffic.tokens == {"reused": 500, "local": 0, "computed": 1300}
    assert traffic.misses == {"NO_LEASE": 1}
    assert traffic.ttft_median is None
