"""Tickets are proved or refused."""

from base64 import urlsafe_b64decode

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kvlease.router.engine import EngineKey
from kvlease.router.errors import TicketForged
from kvlease.router.ticket import MAX_LENGTH, Terms, TicketKey, _sign
from kvlease.v1 import router_pb2

KEY = TicketKey(b"k" * 32)
NAMES = st.text(min_size=1, max_size=64)
ENGINES = st.builds(EngineKey, NAMES, NAMES)
TERMS = st.builds(
    Terms,
    ticket_id=NAMES,
    tenant=NAMES,
    conversation_id=st.text(max_size=64),
    prefill=st.none() | ENGINES,
    decode=ENGINES,
    base_generation=st.integers(0, 2**64 - 1),
    lifetime=st.integers(0, 86_400).map(float),
)
SAMPLE = Terms(
    ticket_id="t",
    tenant="a",
    conversation_id="c",
    prefill=EngineKey("p", "1"),
    decode=EngineKey("d", "1"),
    base_generation=3,
    lifetime=60.0,
)


@given(TERMS)
def test_a_ticket_says_what_was_signed(terms: Terms) -> None:
    assert KEY.open(KEY.seal(terms)) == terms


@given(TERMS)
def test_a_ticket_of_another_key_is_forged(terms: Terms) -> None:
    with pytest.raises(TicketForged):
        KEY.open(TicketKey(b"x" * 32).seal(terms))


@given(TERMS, st.data())
def test_a_ticket_with_any_character_changed_is_forged(terms: Terms, data: st.DataObject) -> None:
    ticket = KEY.seal(terms)
    at = data.draw(st.integers(0, len(ticket) - 1))
    changed = data.draw(st.characters(codec="utf-8"))
    assume(changed != ticket[at])

    with pytest.raises(TicketForged):
        KEY.open(ticket[:at] + changed + ticket[at + 1 :])


@given(TERMS, st.data())
def test_a_ticket_that_was_cut_or_lengthened_is_forged(terms: Terms, data: st.DataObject) -> None:
    ticket = KEY.seal(terms)
    cut = data.draw(st.integers(0, len(ticket) - 1))
    extra = data.draw(st.text(min_size=1, max_size=4))

    for text in (ticket[:cut], ticket + extra, extra + ticket, ticket + "=", ticket + "."):
        with pytest.raises(TicketForged):
            KEY.open(text)


@given(TERMS, TERMS)
def test_the_signature_of_one_ticket_proves_no_other(one: Terms, other: Terms) -> None:
    assume(one != other)
    body, _, _ = KEY.seal(one).rpartition(".")
    _, _, signature = KEY.seal(other).rpartition(".")

    with pytest.raises(TicketForged):
        KEY.open(f"{body}.{signature}")


@given(st.text(max_size=200))
def test_any_other_text_is_forged(text: str) -> None:
    for given_text in (text, f"kvt1.{text}", f"kvt1..{text}"):
        with pytest.raises(TicketForged):
            KEY.open(given_text)


def test_a_very_long_text_is_refused_unread() -> None:
    with pytest.raises(TicketForged):
        KEY.open("kvt1." + "A" * MAX_LENGTH)


def test_what_a_key_signed_that_is_no_terms_is_forged() -> None:
    body = b"kvt1.____"  # decodes to bytes that are no message
    with pytest.raises(TicketForged):
        KEY.open((body + b"." + _sign(KEY._secrets[0], body)).decode())


def test_the_terms_can_be_read_without_the_key() -> None:
    prefix, body, signature = KEY.seal(SAMPLE).split(".")

    terms = router_pb2.TicketTerms.FromString(_decoded(body))
    assert (prefix, len(_decoded(signature))) == ("kvt1", 16)
    assert (terms.conversation.conversation_id, terms.mode) == ("c", router_pb2.ROUTE_MODE_PREFILL_DECODE)
    assert terms.lifetime.seconds == 60


def test_terms_at_their_longest_still_make_a_ticket() -> None:
    name = "é" * 128
    engine = EngineKey(name, name)
    longest = Terms(
        ticket_id=name,
        tenant=name,
        conversation_id=name,
        prefill=engine,
        decode=engine,
        base_generation=2**64 - 1,
        lifetime=3600.0,
    )

    assert KEY.open(KEY.seal(longest)) == longest


def test_a_key_that_could_be_guessed_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes"):
        TicketKey(b"secret")


def _decoded(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@given(TERMS)
def test_routers_change_their_key_one_after_the_other(terms: Terms) -> None:
    old, new = b"o" * 32, b"n" * 32
    told, changed = TicketKey(old, new), TicketKey(new, old)

    assert told.open(changed.seal(terms)) == changed.open(told.seal(terms)) == terms
    with pytest.raises(TicketForged):
        TicketKey(new).open(told.seal(terms))
