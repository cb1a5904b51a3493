"""Time in the ledger."""

from kvlease.registry.ledger import AT_ONCE, Ledger
from kvlease.registry.rules import Rules
from kvlease.registry.value import LeastRecentlyRenewed


def a_ledger() -> Ledger:
    return Ledger(Rules(), 0.0, token=lambda: "token", value=LeastRecentlyRenewed())


def test_very_much_that_is_due_happens_little_by_little_and_time_waits_for_it() -> None:
    ledger, happened = a_ledger(), list[float]()
    for i in range(3 * AT_ONCE):
        ledger.timers.at(1.0 + i / 1000, lambda x, _: happened.append(x.now), None)

    ledger.advance(10.0)

    assert len(happened) == AT_ONCE
    assert ledger.now == happened[-1]
    ledger.advance(10.0)
    ledger.advance(10.0)
    assert len(happened) == 3 * AT_ONCE
    assert ledger.now == 10.0
    assert happened == sorted(happened)


def test_nothing_that_is_due_is_left_at_the_instant_at_which_time_stands() -> None:
    ledger, happened = a_ledger(), list[float]()
    for _ in range(2 * AT_ONCE):
        ledger.timers.at(1.0, lambda x, _: happened.append(x.now), None)

    ledger.advance(1.0)

    assert len(happened) == 2 * AT_ONCE
