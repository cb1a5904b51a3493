"""How well an engine would serve a leg."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlease.router import scorers
from kvlease.router.engine import Candidate
from tests.router.engines import LAYOUT, OTHER_KEY, OTHER_LAYOUT, both, candidate, engine, prefill

CANDIDATES = st.lists(
    st.builds(
        lambda unseen, running, waiting, free, total: candidate(
            "e", unseen, running=running, waiting=waiting, free_blocks=free, total_blocks=total
        ),
        *[st.integers(0, 10_000)] * 5,
    ),
    min_size=1,
    max_size=8,
)


@given(CANDIDATES)
def test_scores_lie_between_0_and_1(candidates: list[Candidate]) -> None:
    for scorer in (scorers.by_queue, scorers.by_free_blocks, scorers.by_partners({}), scorers.by_reuse(engine("d"))):
        assert all(0.0 <= score <= 1.0 for score in scorer(candidates))


def test_the_fewest_requests_score_best_and_those_on_their_way_count() -> None:
    idle, running, sent = candidate("a"), candidate("b", running=1), candidate("c", unseen=3)

    assert scorers.by_queue([idle, running, sent]) == [1.0, 0.5, 0.25]


def test_requests_are_compared_with_the_least_loaded() -> None:
    assert scorers.by_queue([candidate("a", running=9), candidate("b", running=19)]) == [1.0, 0.5]


def test_free_blocks_score_by_their_share() -> None:
    scores = scorers.by_free_blocks([candidate("a", free_blocks=25), candidate("b", total_blocks=50)])

    assert scores == [0.25, 1.0]


def test_an_engine_that_tells_no_pool_size_counts_as_free() -> None:
    assert scorers.by_free_blocks([candidate("a", total_blocks=0, free_blocks=0)]) == [1.0]


def test_a_decode_engine_scores_if_another_engine_can_prefill_for_it() -> None:
    prefills = {LAYOUT: [both("b0")]}
    decodes = [candidate("d0"), candidate("d1", layout=OTHER_LAYOUT), Candidate(both("b0"), 0)]

    assert scorers.by_partners(prefills)(decodes) == [1.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "changes", [{"bidirectional": False}, {"layout": OTHER_KEY}, {"layout": OTHER_LAYOUT}], ids=lambda c: str(*c)
)
def test_a_prefill_engine_scores_if_it_can_read_and_prove_what_is_kept(changes: dict[str, object]) -> None:
    score = scorers.by_reuse(engine("d0"))

    assert score([Candidate(prefill("p0"), 0), Candidate(prefill("p1", **changes), 0)]) == [1.0, 0.0]


def test_nothing_is_reused_of_an_engine_that_keeps_nothing() -> None:
    assert scorers.by_reuse(engine("d0", bidirectional=False))([Candidate(prefill("p0"), 0)]) == [0.0]
