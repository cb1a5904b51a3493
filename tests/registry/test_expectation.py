"""The policy that learns habits: what makes a lease worth more, what is learned from, how much is remembered."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlease.registry.expectation import ExpectedReturn
from kvlease.registry.gaps import EDGES, HORIZON, Experience, Traits
from kvlease.registry.habits import Habit, Habits, Wait
from kvlease.registry.lease import Conversation, EngineRef, Handle, Kind, StopReason, Terms
from kvlease.registry.leases import Lease, Leases
from kvlease.registry.memory import MemoryStore
from kvlease.registry.rules import Rules
from kvlease.registry.session import Credential, Engine, Session
from kvlease.registry.settings import Settings
from kvlease.registry.turns import TurnEnd, TurnOutcome
from tests.registry.digests import chain
from tests.registry.world import CHAT, World
from tests.support.clock import FakeClock, settle

AGES = st.floats(0, 2 * HORIZON)
SOME = Traits(StopReason.ANSWERED, typical=3, last=(1, 2), size=2, busy=4, busy_before=4)
OWNER = Session(Credential("s", "x"), Engine(EngineRef("d0", "i1"), ("m",), 100, b""), 50, 0.0)


def a_lease(name: str, at: float, *, blocks: int = 1, stop: StopReason = StopReason.ANSWERED) -> Lease:
    handle = Handle(OWNER.engine.ref, "r", blocks, chain("text"), b"", "test/1")
    terms = Terms(f"{name}@{at}", Kind.DECODE, Conversation("t", name), "", "", handle, stop)
    return Leases().add(terms, OWNER, seq=1, generation=1, now=at)


def granted(value: ExpectedReturn, name: str, at: float, *, blocks: int = 1) -> Lease:
    lease = a_lease(name, at, blocks=blocks)
    value.granted(lease)
    return lease


def converse(value: ExpectedReturn, name: str, *, gap: float, turns: int = 30) -> Lease:
    """Holds a conversation whose turns come `gap` seconds after each other's end; gives its last lease, at 0."""
    for turn in range(-turns, 0):
        granted(value, name, turn * gap)
        value.came(Conversation("t", name), (turn + 1) * gap)
    return granted(value, name, 0.0)


def test_before_anything_is_known_the_lease_that_waits_longest_goes_first() -> None:
    value = ExpectedReturn()
    old, new = granted(value, "a", 0.0), granted(value, "b", 50.0)

    assert value.worth(old, 60.0) < value.worth(new, 60.0)


def test_of_equal_hopes_the_one_goes_first_that_keeps_more_blocks() -> None:
    value = ExpectedReturn()
    large, small = granted(value, "a", 0.0, blocks=10), granted(value, "b", 0.0, blocks=2)

    assert value.worth(large, 5.0) < value.worth(small, 5.0)


def test_a_conversation_that_always_comes_back_soon_is_kept_rather_than_a_slow_one_until_it_is_late() -> None:
    value = ExpectedReturn()
    fast, slow = converse(value, "fast", gap=8.0), converse(value, "slow", gap=200.0)

    assert value.worth(fast, 5.0) > value.worth(slow, 5.0)
    assert value.worth(fast, 100.0) < value.worth(slow, 100.0)


def test_what_one_conversation_shows_is_believed_of_new_ones() -> None:
    value, other = ExpectedReturn(), ExpectedReturn()
    converse(value, "a", gap=8.0)
    converse(other, "a", gap=1000.0)

    assert value.worth(granted(value, "new", 0.0), 0.0) > other.worth(granted(other, "new", 0.0), 0.0)


def test_a_return_is_noticed_even_if_its_lease_is_gone() -> None:
    value = ExpectedReturn()
    for turn in range(30):
        granted(value, "a", turn * 500.0)
        value.came(Conversation("t", "a"), turn * 500.0 + 300.0)

    lease = granted(value, "a", 30 * 500.0)
    assert lease.gaps is not None
    assert lease.gaps.pays_until(1 / 600) > 300.0


def test_silence_teaches_and_an_end_does_not() -> None:
    silent, ended = ExpectedReturn(), ExpectedReturn()
    for value in (silent, ended):
        for number in range(50):
            granted(value, f"c{number}", 0.0)
    for number in range(50):
        ended.ended(Conversation("t", f"c{number}"))

    lease, other = (granted(value, "new", HORIZON + 1) for value in (silent, ended))
    assert silent.worth(lease, HORIZON + 1) < ended.worth(other, HORIZON + 1)


def test_a_turn_is_counted_once_however_often_it_shows() -> None:
    once, often = ExpectedReturn(), ExpectedReturn()
    for value, times in ((once, 1), (often, 5)):
        granted(value, "a", 0.0)
        for _ in range(times):
            value.came(Conversation("t", "a"), 10.0)

    lease, other = granted(once, "b", 20.0), granted(often, "b", 20.0)
    assert once.worth(lease, 20.0) == often.worth(other, 20.0)


def test_a_stop_reason_that_becomes_known_later_counts() -> None:
    value = ExpectedReturn()
    lease = granted(value, "a", 0.0)
    before = lease.gaps

    lease.stop_reason = StopReason.TOOLS_CALLED
    value.granted(lease)

    assert lease.gaps is not before


def test_lives_are_learned_only_with_patience_and_grow_with_it() -> None:
    lives = [ExpectedReturn(patience=patience) for patience in (0.0, 60.0, 600.0)]
    never, short, long = (value.life(granted(value, "a", 0.0)) for value in lives)

    assert never is None
    assert short is not None
    assert long is not None
    assert short < long


def test_larger_leases_are_kept_less_long() -> None:
    value = ExpectedReturn(patience=300.0)
    small, large = granted(value, "a", 0.0, blocks=2), granted(value, "b", 0.0, blocks=8)

    assert (value.life(large) or 0.0) < (value.life(small) or 0.0)


def test_no_more_conversations_are_remembered_than_allowed() -> None:
    habits = Habits(limit=3)
    for number in range(10):
        habits.shown(Conversation("t", f"c{number}"), float(number))
        assert not list(habits.forgotten(float(number)))

    assert len(habits) == 3
    assert habits.known(Conversation("t", "c0")) is None


def test_a_conversation_that_was_silent_for_the_horizon_is_forgotten() -> None:
    habits = Habits()
    habits.shown(Conversation("t", "a"), 0.0)

    assert not list(habits.forgotten(HORIZON - 1))
    assert len(habits) == 1
    assert not list(habits.forgotten(HORIZON))
    assert len(habits) == 0


@given(st.lists(st.tuples(AGES, st.booleans()), max_size=50), AGES)
def test_worth_is_finite_and_above_zero_whatever_was_seen(seen: list[tuple[float, bool]], age: float) -> None:
    experience = Experience()
    for observed, came in seen:
        experience.observe(SOME, observed, came=came)
    gaps = experience.gaps(SOME)

    assert 0 < gaps.worth(age) < 1e3
    assert gaps.pays_until(1e3) == 0.0
    assert gaps.pays_until(0.0) == EDGES[-1]


def test_gaps_of_none_at_all_are_no_faster_than_can_be_believed() -> None:
    experience = Experience()
    for _ in range(1000):
        experience.observe(SOME, 0.0, came=True)

    assert experience.gaps(SOME).worth(0.0) < 1e3


def test_a_trait_corrects_what_is_expected_without_it_and_no_more() -> None:
    experience = Experience()
    slow = SOME._replace(busy=1)
    for _ in range(200):
        experience.observe(SOME, 10.0, came=True)
        experience.observe(slow, 1000.0, came=True)
    elsewhere = SOME._replace(size=SOME.size + 1)

    assert experience.gaps(slow).worth(5.0) < experience.gaps(elsewhere).worth(5.0)


def test_what_was_seen_long_ago_counts_less() -> None:
    experience = Experience()
    for gap in (10.0, 1000.0):
        for _ in range(60_000):
            experience.observe(SOME, gap, came=True)

    assert experience.gaps(SOME).worth(10.0) < 0.01


def test_how_long_turns_take_is_remembered_of_the_last_two() -> None:
    habit = Habit()
    for ended, came in ((0.0, 5.0), (8.0, 20.0), (50.0, 60.0)):
        habit.answered(ended)
        habit.wait = Wait(ended, habit.traits(StopReason.ANSWERED, 1000))
        habit.came(came)
    habit.answered(61.0)

    assert (habit.busy, habit.busy_before) == (1.0, 30.0)


async def test_a_learned_life_is_set_anew_when_the_stop_reason_becomes_known() -> None:
    clock = FakeClock()
    names = count()
    value = ExpectedReturn(patience=300.0)
    store = MemoryStore(
        Rules(), clock=clock, sleep=clock.sleep, token=lambda: f"t{next(names)}", value=value, watch_limit=10
    )

    async def pass_time(seconds: float) -> None:
        clock.advance(seconds)
        store.advance()

    hand = await World(store, pass_time, Rules(), settle).engine()
    for number in range(100):
        value.granted(a_lease(f"silent{number}", -HORIZON - 1, stop=StopReason.TOOLS_CALLED))
    value.granted(a_lease("next", 0.0))
    before = (await hand.grant("l0", "text", ticket_id="k0")).remaining
    await store.end_turn(TurnEnd("k0", CHAT, TurnOutcome.COMPLETED, StopReason.TOOLS_CALLED, hand.ref))

    assert (await store.get("t1", "l0")).remaining < before


def test_only_habits_have_patience() -> None:
    assert Settings().policy == "habits"
    assert Settings(store="redis://localhost").policy == "return"
    assert Settings(patience=480.0)
    for wrong in ({"value": "recent"}, {"store": "redis://localhost"}):
        with pytest.raises(ValueError, match="patience"):
            Settings(patience=480.0, **wrong)  # type: ignore[arg-type]
