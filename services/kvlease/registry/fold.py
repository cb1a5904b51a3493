"""What never changes of a lease, folded into one string of bytes: there may be a million, and every object costs.

What the leases of one engine and one tenant have in common is an object that they share.
"""

from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from kvlease.registry.chain import Chain
from kvlease.registry.lease import Conversation, EngineRef, Handle, Kind, StopReason, Terms

_HEAD = Struct("<QIIBBHBHH")
"""Tokens, blocks, bytes of digests, the stop reason, and the lengths of the names: the ids of the lease, conversation,
parent, ticket and request. Names, digests and body follow, in this order."""
_LEASE, _CONVERSATION = 17, 18
"""Where the lengths of the first two names stand."""
_NAMES = _HEAD.size
_STOP_REASONS = tuple(StopReason)


class Family(NamedTuple):
    """What leases have in common."""

    kind: Kind
    tenant: str
    engine: EngineRef
    key_id: str
    stride: int
    body_format: str


@lru_cache(4096)
def _shared(family: Family) -> Family:
    """One value for all that equal it."""
    return family


def fold(terms: Terms) -> tuple[Family, bytes]:
    """Folds terms. Names are as short as the API asks: ids up to 255 bytes, others up to 65535."""
    lease_id, kind, (tenant, conversation_id), ticket_id, parent_lease_id, handle, stop_reason = terms
    engine, request_id, blocks, (key_id, stride, tokens, digests), body, body_format = handle
    names = [x.encode() for x in (lease_id, conversation_id, parent_lease_id, ticket_id, request_id)]
    head = _HEAD.pack(tokens, blocks, len(digests), stop_reason, *map(len, names))
    return _shared(Family(kind, tenant, engine, key_id, stride, body_format)), b"".join((head, *names, digests, body))


def unfold(family: Family, text: bytes) -> Terms:
    """Gives the terms back."""
    kind, tenant, engine, key_id, stride, body_format = family
    tokens, blocks, digests, stop_reason, *lengths = _HEAD.unpack_from(text)
    names, at = [], _NAMES
    for length in lengths:
        names.append(text[at : at + length].decode() if length else "")
        at += length
    lease_id, conversation_id, parent_lease_id, ticket_id, request_id = names
    chain = Chain(key_id, stride, tokens, text[at : at + digests])
    handle = Handle(engine, request_id, blocks, chain, text[at + digests :], body_format)
    conversation = Conversation(tenant, conversation_id)
    return Terms(lease_id, kind, conversation, ticket_id, parent_lease_id, handle, _STOP_REASONS[stop_reason])


def lease_id(text: bytes) -> str:
    """The lease's id alone."""
    return text[_NAMES : _NAMES + text[_LEASE]].decode()


def conversation_id(text: bytes) -> str:
    """The conversation's id alone."""
    at = _NAMES + text[_LEASE]
    return text[at : at + text[_CONVERSATION] + (text[_CONVERSATION + 1] << 8)].decode()


def ticket_id(text: bytes) -> str:
    """The ticket's id alone."""
    *_, lease, conversation, parent, ticket, _ = _HEAD.unpack_from(text)
    at = _NAMES + lease + conversation + parent
    return text[at : at + ticket].decode()


def chain(family: Family, text: bytes) -> Chain:
    """The chain alone."""
    tokens, _, digests, _, *lengths = _HEAD.unpack_from(text)
    at = _NAMES + sum(lengths)
    return Chain(family.key_id, family.stride, tokens, text[at : at + digests])


def tokens(text: bytes) -> int:
    """The tokens whose KV is kept."""
    return int.from_bytes(text[:8], "little")


def blocks(text: bytes) -> int:
    """The blocks that keep it."""
    return int.from_bytes(text[8:12], "little")
