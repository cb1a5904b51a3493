"""The table of leases, and what leads to its rows: folded terms, indexes, chains of held leases, timers."""

from dataclasses import dataclass
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from kvlease.registry import fold
from kvlease.registry.chain import DIGEST, Chain
from kvlease.registry.held import Held
from kvlease.registry.index import SHELVES, Index
from kvlease.registry.lease import Conversation, EngineRef, Handle, Kind, State, StopReason, Terms
from kvlease.registry.leases import Lease, Leases
from kvlease.registry.session import Credential, Engine, Session
from kvlease.registry.timers import Timers

OWNER = Session(Credential("s", "x"), Engine(EngineRef("d0", "i1"), ("m",), 100, b""), 50, 0.0)
LIKE = SHELVES << 32
"""Numbers that differ by it have the same mark."""
NAMES = st.text(max_size=40)
CHAINS = st.builds(
    Chain,
    key_id=NAMES,
    stride=st.integers(1, 2**32 - 1),
    tokens=st.integers(1, 2**64 - 1),
    digests=st.binary(max_size=3 * DIGEST),
)
TERMS = st.builds(
    Terms,
    lease_id=NAMES,
    kind=st.sampled_from(Kind),
    conversation=st.builds(Conversation, NAMES, NAMES),
    ticket_id=NAMES,
    parent_lease_id=NAMES,
    handle=st.builds(
        Handle,
        engine=st.builds(EngineRef, NAMES, NAMES),
        request_id=NAMES,
        block_count=st.integers(1, 2**32 - 1),
        chain=CHAINS,
        body=st.binary(max_size=50),
        body_format=NAMES,
    ),
    stop_reason=st.sampled_from(StopReason),
)


def terms(name: str) -> Terms:
    handle = Handle(OWNER.engine.ref, "r", 1, Chain("k", 4, 4, bytes(DIGEST)), b"", "test/1")
    return Terms(name, Kind.DECODE, Conversation("t", name), "", "", handle, StopReason.ANSWERED)


def a_lease(leases: Leases, name: str) -> Lease:
    return leases.add(terms(name), OWNER, seq=1, generation=1, now=0.0)


@given(TERMS)
def test_terms_come_out_of_a_row_as_they_went_in(given_terms: Terms) -> None:
    lease = Leases().add(given_terms, OWNER, seq=1, generation=1, now=0.0)

    assert lease.terms == given_terms
    assert (lease.lease_id, lease.conversation) == (given_terms.lease_id, given_terms.conversation)
    assert (lease.ticket_id, lease.kind, lease.engine) == (given_terms.ticket_id, given_terms.kind, given_terms.engine)
    assert (lease.chain, lease.tokens) == (given_terms.handle.chain, given_terms.handle.chain.tokens)
    assert lease.blocks == given_terms.handle.block_count


def test_what_leases_have_in_common_is_kept_once() -> None:
    one, _ = fold.fold(terms("one"))
    other, _ = fold.fold(terms("other"))

    assert one is other


@given(st.lists(st.tuples(st.sampled_from([1, 2, 1 + LIKE, 1 + 2 * LIKE]), st.booleans()), max_size=40))
def test_an_index_leads_to_each_row_that_is_there_even_if_names_look_alike(steps: list[tuple[int, bool]]) -> None:
    index, there, row = Index(), dict[int, int](), 0
    for name, enters in steps:
        if enters and name not in there:
            row += 1
            index.add(name, row)
            there[name] = row
        elif enters:
            row += 1
            index.replace(name, there[name], row)
            there[name] = row
        elif name in there:
            index.remove(name, there.pop(name))

    for name in (1, 2):
        like = [at for other, at in there.items() if (other - name) % LIKE == 0]
        assert sorted(index.rows(name)) == sorted(like)


def test_a_row_is_another_lease_s_only_when_nobody_looks_at_it_any_more() -> None:
    leases = Leases()
    first = a_lease(leases, "first")
    first.state = State.FREED
    leases.remove(first)

    second = a_lease(leases, "second")
    assert (first.lease_id, second.lease_id) == ("first", "second")

    leases.forget()
    assert a_lease(leases, "third").row == first.row


def test_a_row_stays_as_long_as_a_claim_refers_to_it() -> None:
    leases = Leases()
    lease = a_lease(leases, "claimed")
    OWNER.claimed(lease)
    lease.state = State.FREED
    leases.remove(lease)
    leases.forget()
    assert lease.lease_id == "claimed"

    OWNER.unclaimed(lease)
    leases.unclaimed(lease)
    leases.forget()
    assert a_lease(leases, "next").row == lease.row


@given(st.lists(st.booleans(), max_size=50))
def test_held_leases_keep_their_order(stays: list[bool]) -> None:
    table, held = Leases(), Held()
    leases = [a_lease(table, f"l{i}") for i in range(len(stays))]
    for lease in leases:
        held.add(lease)
    for lease, stay in zip(leases, stays, strict=True):
        if not stay:
            held.remove(lease)

    assert list(held.values()) == [x for x, stay in zip(leases, stays, strict=True) if stay]
    assert len(held) == sum(stays)


@dataclass
class Called:
    """Calls in the order in which they were made."""

    keys: list[tuple[float, int]]


def call(called: Called, key: tuple[float, int]) -> None:
    called.keys.append(key)


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 3)), max_size=60))
def test_timers_run_in_order_and_equal_ones_as_they_came(steps: list[tuple[float, int]]) -> None:
    """Whether they are set beforehand or after earlier ones have run."""
    timers, called, now = Timers(), Called([]), 0.0
    for number, (later, runs) in enumerate(steps):
        timers.at(now + later, call, (now + later, number))
        for _ in range(runs):
            due = timers.next()
            if due is not None:
                now = due
                timers.run(called)
                assert called.keys[-1][0] == due
    while timers.next() is not None:
        timers.run(called)

    assert all(one < other for one, other in pairwise(called.keys))
    assert len(called.keys) == len(steps)
