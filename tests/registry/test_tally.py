"""What is counted of leases, on events made by hand."""

from kvlease.registry.change import Event
from kvlease.registry.feed import Happened
from kvlease.registry.lease import Conversation, EngineRef, Handle, Kind, Reason, State, StopReason, Terms
from kvlease.registry.shown import Shown
from kvlease.registry.tally import Tally
from tests.registry.digests import chain

TOKENS = 40


def happened(
    event: Event,
    lease_id: str = "l",
    *,
    kind: Kind = Kind.DECODE,
    reason: Reason = Reason.NONE,
    claims: int = 0,
) -> Happened:
    handle = Handle(EngineRef("d", "i"), "r", 3, chain("." * TOKENS), b"", "")
    terms = Terms(lease_id, kind, Conversation("t", "c"), "", "", handle, StopReason.UNKNOWN)
    state = State.LIVE if reason is Reason.NONE else State.RETIRING
    return Happened(event, Shown(terms, 1, 1, StopReason.UNKNOWN, state, reason, 60.0, 0.0, 0.0, claims))


def test_tokens_are_pinned_from_the_grant_until_they_are_free() -> None:
    tally = Tally()
    tally.take(happened(Event.GRANTED), 10.0)

    assert tally.pinned(15.0) == 5 * TOKENS
    tally.take(happened(Event.RETIRED, reason=Reason.ENDED), 16.0)
    tally.take(happened(Event.FREED, reason=Reason.ENDED), 17.0)
    assert tally.pinned(99.0) == 7 * TOKENS


def test_what_is_freed_unread_was_kept_for_nothing() -> None:
    tally = Tally()
    tally.take(happened(Event.GRANTED, "read"), 0.0)
    tally.take(happened(Event.GRANTED, "unread"), 0.0)
    tally.take(happened(Event.CLAIMED, "read", claims=1), 1.0)
    tally.take(happened(Event.CLAIM_ENDED, "read"), 2.0)

    for lease_id in ("read", "unread"):
        tally.take(happened(Event.RETIRED, lease_id, reason=Reason.EXPIRED), 4.0)
        tally.take(happened(Event.FREED, lease_id, reason=Reason.EXPIRED), 5.0)

    assert tally.wasted == 5 * TOKENS
    assert not any(tally.states.values())
    assert tally.retired == {(Kind.DECODE, Reason.EXPIRED): 2}
    assert tally.take_reclaims() == [1.0, 1.0]
    assert tally.take_reclaims() == []


def test_leases_are_counted_by_what_they_are_now() -> None:
    tally = Tally()
    for lease_id in ("a", "b", "c"):
        tally.take(happened(Event.GRANTED, lease_id), 0.0)
    tally.take(happened(Event.GRANTED, "p", kind=Kind.PREFILL), 0.0)
    tally.take(happened(Event.CLAIMED, "b", claims=2), 1.0)
    tally.take(happened(Event.RETIRED, "c", reason=Reason.REVOKED), 1.0)

    assert +tally.states == {
        (Kind.DECODE, "live"): 1,
        (Kind.DECODE, "claimed"): 1,
        (Kind.DECODE, "retiring"): 1,
        (Kind.PREFILL, "live"): 1,
    }


def test_prefills_leases_are_not_kept_for_later() -> None:
    tally = Tally()
    tally.take(happened(Event.GRANTED, kind=Kind.PREFILL), 0.0)
    tally.take(happened(Event.FREED, kind=Kind.PREFILL, reason=Reason.READ), 9.0)

    assert tally.pinned(10.0) == 0
    assert tally.wasted == 0


def test_a_watch_that_broke_off_goes_on_with_what_is_granted_then() -> None:
    tally = Tally()
    tally.take(happened(Event.GRANTED, "before"), 0.0)

    tally.begin(5.0)
    tally.take(happened(Event.GRANTED, "after"), 8.0)
    tally.take(happened(Event.FREED, "before", reason=Reason.ENDED), 9.0)

    assert tally.pinned(10.0) == 5 * TOKENS + 2 * TOKENS
    assert tally.wasted == 0
    assert +tally.states == {(Kind.DECODE, "live"): 1}
