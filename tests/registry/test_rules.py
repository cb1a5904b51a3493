"""Pure rules: chains, values, rolls, timers, lengths of time."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlease.registry import answers
from kvlease.registry.lease import Conversation, EngineRef, Handle, Kind, StopReason, Terms
from kvlease.registry.leases import Lease, Leases
from kvlease.registry.roll import Roll
from kvlease.registry.rules import Rules, Timing
from kvlease.registry.session import Credential, Engine, Session
from kvlease.registry.value import LeastRecentlyRenewed, LikelyReturn
from tests.registry.digests import STRIDE, chain, prompt

TEXTS = st.text("ab", min_size=1, max_size=20)


def a_lease(
    seq: int = 1, text: str = "text", blocks: int = 1, at: float = 0.0, *, table: Leases | None = None
) -> Lease:
    session = Session(Credential("s", "x"), Engine(EngineRef("d0", "i1"), ("m",), 100, b""), 50, 0.0)
    handle = Handle(session.engine.ref, "r", blocks, chain(text), b"", "test/1")
    terms = Terms(f"l{seq}", Kind.DECODE, Conversation("t", "c"), "", "", handle, StopReason.ANSWERED)
    return (Leases() if table is None else table).add(terms, session, seq=seq, generation=0, now=at)


@given(TEXTS, TEXTS)
def test_a_chain_never_begins_another_one_of_other_tokens(one: str, other: str) -> None:
    if chain(one).begins(chain(other), named=False):
        assert other.startswith(one)


@given(TEXTS, TEXTS)
def test_a_named_chain_differs_by_less_than_a_stride(one: str, other: str) -> None:
    if chain(one).begins(chain(other), named=True):
        assert len(other) >= len(one)
        assert other.startswith(one[: len(one) // STRIDE * STRIDE])


@given(TEXTS, TEXTS)
def test_an_appended_chain_is_recognised_when_named(one: str, more: str) -> None:
    assert chain(one).begins(chain(one + more), named=True)


@given(TEXTS, TEXTS)
def test_what_matches_is_the_common_beginning_in_whole_strides(held: str, asked: str) -> None:
    common = next((i for i, (a, b) in enumerate(zip(held, asked, strict=False)) if a != b), min(len(held), len(asked)))

    assert chain(held).matched(prompt(asked)) == common // STRIDE * STRIDE


def test_claims_must_fit_into_hold_even_when_a_heartbeat_is_lost() -> None:
    assert Timing(heartbeat=1, hold=8, claim=5, margin=1)
    with pytest.raises(ValueError, match="must fit into hold"):
        Timing(heartbeat=1, hold=7.9, claim=5, margin=1)
    with pytest.raises(ValueError, match="above 0"):
        Timing(heartbeat=0)
    with pytest.raises(ValueError, match="clocks differ"):
        Timing(margin=0.01)


def test_a_reader_whose_clock_is_slower_counts_on_its_claim_no_longer_than_the_registry_keeps_it() -> None:
    told = answers.renewed_claim(5.0).ttl.ToMilliseconds() / 1000

    fast, slow = 1.0009, 0.9991
    assert told / slow < 5.0 / fast


def test_tools_give_a_longer_life() -> None:
    rules = replace(Rules(), answered_ttl=10, tools_ttl=20)

    assert [rules.ttl(x) for x in StopReason] == [10, 10, 20, 10]


def test_the_lease_that_nobody_renewed_for_longest_goes_first() -> None:
    old, new = a_lease(at=1.0), a_lease(at=2.0)

    assert LeastRecentlyRenewed().worth(old, 5.0) < LeastRecentlyRenewed().worth(new, 5.0)


def test_a_lease_that_nobody_comes_back_to_any_more_goes_first() -> None:
    value = LikelyReturn()
    for _ in range(20):
        value.observed(StopReason.ANSWERED, 5.0, came=True)
        value.observed(StopReason.ANSWERED, 60.0, came=False)

    assert value.worth(a_lease(at=0.0), 40.0) < value.worth(a_lease(at=38.0), 40.0)


def test_of_equal_chances_the_one_goes_first_that_keeps_fewer_tokens_per_block() -> None:
    value = LikelyReturn()

    assert value.worth(a_lease(text="ab", blocks=1), 1.0) < value.worth(a_lease(text="abcdefgh", blocks=2), 1.0)


@given(st.lists(st.booleans(), max_size=200), st.integers(0, 100))
def test_a_roll_is_entered_anywhere_and_keeps_its_order(stays: list[bool], after: int) -> None:
    table = Leases()
    roll, leases = Roll(table), [a_lease(i + 1, table=table) for i in range(len(stays))]
    for lease in leases:
        roll.add(lease)
    for lease, stay in zip(leases, stays, strict=True):
        if not stay:
            roll.remove(lease)

    left = [x for x, stay in zip(leases, stays, strict=True) if stay]
    assert len(roll) == len(left)
    assert list(roll.after(after)) == [x for x in left if x.seq > after]
