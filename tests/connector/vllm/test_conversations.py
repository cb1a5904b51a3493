"""Two engines, many conversations, and everything that can go wrong between them, in any order.

Every step of every engine checks that what it computes stands on the right KV; at the end nothing is held any more.
"""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from tests.connector.vllm.world import CLAIM, World

WHICH = st.integers(0, 1)


def happens(what: str, /, **how: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    return st.tuples(st.just(what), st.fixed_dictionaries(how))


TURN = happens(
    "turn",
    name=st.sampled_from("ab"),
    keep=st.sampled_from([1.0, 1.0, 1.0, 0.6, 0.3, 0.0]),
    more=st.sampled_from([1, 20, 70, 130]),
    legs=st.sampled_from(["both", "both", "both", "alone", "no prefill"]),
)
GO_ON = happens("go_on", times=st.integers(1, 12))
TROUBLES = [
    happens("step", which=WHICH, times=st.integers(1, 4)),
    happens("answer"),
    happens("end_reads", which=WHICH, well=st.booleans()),
    happens("wait", seconds=st.sampled_from([0.02, 0.5, CLAIM, 30.0])),
    happens("free", number=st.integers(0, 9)),
    happens("flood", which=WHICH),
    happens("stall"),
    happens("leave", number=st.integers(0, 9)),
    happens("preempt", which=WHICH),
]
EVENTS = st.sampled_from([TURN] * 4 + [GO_ON] * 7 + TROUBLES).flatmap(lambda what: what)  # in these proportions


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("model")


@settings(max_examples=100, deadline=None)
@given(
    caching=st.booleans(),
    asynchronous=st.booleans(),
    events=st.lists(EVENTS, min_size=50, max_size=200),
)
def test_no_token_is_computed_from_kv_of_other_tokens_and_nothing_is_held_for_ever(
    folder: Path, *, caching: bool, asynchronous: bool, events: list[tuple[str, dict[str, Any]]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        world = World(folder, patch, caching=caching, asynchronous=asynchronous)
    try:
        for what, how in events:
            getattr(world, what)(**how)
        world.finish()

        for outcome in world.reads:
            event(outcome)
        assert world.alive == []
        for engine in world.engines:
            assert engine.used == 0
            assert not engine.scheduler.requests
            reads = engine.leasing._reads
            assert not any((engine.leasing._turns, reads._open, reads._given_up, reads._quarantine))
    finally:
        for engine in world.engines:
            engine.stop()
