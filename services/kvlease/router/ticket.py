"""The ticket: a turn's routing decision as a short signed text, `kvt1.<terms>.<signature>`.

Anyone may read the terms; only a holder of the key can make them or prove them.
"""

import base64
import hmac
from binascii import b2a_base64
from functools import lru_cache
from typing import NamedTuple

from google.protobuf.message import DecodeError

from kvlease.client.convert import seconds
from kvlease.router.engine import EngineKey
from kvlease.router.errors import TicketForged
from kvlease.rpc.errors import write
from kvlease.v1 import lease_pb2, router_pb2

PREFIX = "kvt1."
SIGNATURE_BYTES = 16
MAX_LENGTH = 8192  # three names of engines and conversations at their longest, in base64, with room to spare
MIN_KEY_BYTES = 16
REMEMBERED = 4096  # tickets that were proved: each comes four times, from prefill, decode and whoever drives the turn
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


class Terms(NamedTuple):
    """What a ticket says. Without prefill, decode computes the prompt; `lifetime` is in seconds."""

    ticket_id: str
    tenant: str
    conversation_id: str
    prefill: EngineKey | None
    decode: EngineKey
    base_generation: int
    lifetime: float


class TicketKey:
    """Signs terms and proves them. Knows other secrets too, so that routers need not change theirs at one instant."""

    def __init__(self, secret: bytes, *others: bytes) -> None:
        """Signs with *secret*, and proves what any of them signed. Raises ValueError for one that could be guessed."""
        if any(len(each) < MIN_KEY_BYTES for each in (secret, *others)):
            raise ValueError(f"a ticket key has at least {MIN_KEY_BYTES} bytes")
        self._secrets = (secret, *others)
        self._proved = lru_cache(REMEMBERED)(self._prove)

    def seal(self, terms: Terms) -> str:
        """Returns the terms as a ticket."""
        body = PREFIX.encode() + _encode(to_proto(terms).SerializeToString())
        return (body + b"." + _sign(self._secrets[0], body)).decode()

    def open(self, ticket: str) -> Terms:
        """Returns what the ticket says. Raises TicketForged for a text that none of the secrets signed."""
        if len(ticket) > MAX_LENGTH or not ticket.startswith(PREFIX) or not ticket.isascii():
            raise TicketForged
        return self._proved(ticket)

    def _prove(self, ticket: str) -> Terms:
        body, _, signature = ticket.encode().rpartition(b".")
        # Texts are compared, not what they decode to: a second spelling of a signature is not the one we gave.
        if not any(hmac.compare_digest(signature, _sign(each, body)) for each in self._secrets):
            raise TicketForged
        try:
            return from_proto(router_pb2.TicketTerms.FromString(_decode(body[len(PREFIX) :])))
        except (DecodeError, ValueError) as error:  # signed with our key, by something that is no router
            raise TicketForged from error


@lru_cache(REMEMBERED)
def to_proto(terms: Terms) -> router_pb2.TicketTerms:
    message = router_pb2.TicketTerms(
        ticket_id=terms.ticket_id,
        mode=router_pb2.ROUTE_MODE_PREFILL_DECODE if terms.prefill else router_pb2.ROUTE_MODE_DECODE_ONLY,
        prefill=_ref(terms.prefill) if terms.prefill else None,
        decode=_ref(terms.decode),
        base_generation=terms.base_generation,
    )
    conversation = message.conversation
    conversation.tenant, conversation.conversation_id = terms.tenant, terms.conversation_id
    write(terms.lifetime, message.lifetime)
    return message


@lru_cache(1024)
def _ref(engine: EngineKey) -> lease_pb2.EngineRef:
    """One message for all tickets that name the engine."""
    return lease_pb2.EngineRef(engine_id=engine.engine_id, incarnation=engine.incarnation)


def from_proto(terms: router_pb2.TicketTerms) -> Terms:
    prefill = EngineKey(terms.prefill.engine_id, terms.prefill.incarnation) if terms.HasField("prefill") else None
    return Terms(
        ticket_id=terms.ticket_id,
        tenant=terms.conversation.tenant,
        conversation_id=terms.conversation.conversation_id,
        prefill=prefill,
        decode=EngineKey(terms.decode.engine_id, terms.decode.incarnation),
        base_generation=terms.base_generation,
        lifetime=seconds(terms.lifetime),
    )


def _sign(secret: bytes, body: bytes) -> bytes:
    return _encode(hmac.digest(secret, body, "sha256")[:SIGNATURE_BYTES])


def _encode(data: bytes) -> bytes:
    return b2a_base64(data, newline=False).translate(_URL_SAFE).rstrip(b"=")


def _decode(text: bytes) -> bytes:
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
