"""What an engine reads from a ticket before a router proves it."""

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlease.connector import ticket
from kvlease.connector.ticket import BadTicketError
from kvlease.v1.lease_pb2 import ConversationKey, EngineRef
from kvlease.v1.router_pb2 import RouteMode, TicketTerms

TERMS = st.builds(
    TicketTerms,
    ticket_id=st.text(max_size=40),
    conversation=st.builds(ConversationKey, tenant=st.text(max_size=20), conversation_id=st.text(max_size=40)),
    mode=st.sampled_from([RouteMode.ROUTE_MODE_PREFILL_DECODE, RouteMode.ROUTE_MODE_DECODE_ONLY]),
    prefill=st.none() | st.builds(EngineRef, engine_id=st.text(max_size=20), incarnation=st.text(max_size=20)),
    decode=st.builds(EngineRef, engine_id=st.text(max_size=20), incarnation=st.text(max_size=20)),
)


def sealed(terms: bytes, signature: str = "c2ln") -> str:
    return f"kvt1.{base64.urlsafe_b64encode(terms).rstrip(b'=').decode()}.{signature}"


@given(TERMS)
def test_the_terms_are_read_whatever_the_signature(terms: TicketTerms) -> None:
    assert ticket.read(sealed(terms.SerializeToString(), signature="anything")) == terms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "kvt1",
        "kvt1.",
        "kvt1..",
        "kvt1.CgF0",
        "kvt1.CgF0.",
        "kvt2.CgF0.c2ln",
        "kvt1.A.c2ln",
        sealed(b"\xff\xff\xff"),
        "kvt1.é.c2ln",
    ],
)
def test_what_is_no_ticket_is_refused(text: str) -> None:
    with pytest.raises(BadTicketError):
        ticket.read(text)


@given(st.text(max_size=100))
def test_any_text_is_read_or_refused(text: str) -> None:
    for given_text in (text, f"kvt1.{text}.s"):
        with contextlib.suppress(BadTicketError):
            ticket.read(given_text)
