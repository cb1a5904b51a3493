"""What scripts are asked, as JSON, and what they keep without looking into it."""

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from kvlease.registry.chain import Chain
from kvlease.registry.claims import Branch, ById, Prefill, Target
from kvlease.registry.lease import Conversation, EngineRef, Handle, Kind, StopReason, Terms
from kvlease.registry.lists import Filter
from kvlease.registry.renewals import Renewal
from kvlease.registry.session import Credential
from kvlease.registry.turns import TurnEnd

Asked = dict[str, Any]


def secret(given: str) -> str:
    """What the store keeps of a session's secret, and compares."""
    return sha256(given.encode()).hexdigest()


def credential(given: Credential) -> Asked:
    return {"session_id": given.session_id, "secret": secret(given.secret)}


def engine(ref: EngineRef) -> Asked:
    return {"engine_id": ref.engine_id, "incarnation": ref.incarnation}


def conversation(given: Conversation) -> Asked:
    return {"tenant": given.tenant, "conversation_id": given.conversation_id}


def told(terms: Terms) -> str:
    """What is kept of an owner's terms, beside digests and body; the scripts look at the first of it only."""
    handle, chain = terms.handle, terms.handle.chain
    told_of = [terms.lease_id, terms.kind, *terms.conversation, terms.ticket_id, terms.parent_lease_id]
    told_of += [*handle.engine, handle.block_count, chain.key_id, chain.stride, chain.tokens, terms.stop_reason]
    return json.dumps([*told_of, handle.request_id, handle.body_format], separators=(",", ":"))


def terms(told_of: bytes | str, digests: bytes, body: bytes) -> Terms:
    """Reads that again."""
    (lease_id, kind, tenant, conversation_id, ticket_id, parent, engine_id, incarnation, *rest) = json.loads(told_of)
    blocks, key_id, stride, tokens, stop_reason, request_id, body_format = rest
    chain = Chain(key_id, stride, tokens, digests)
    handle = Handle(EngineRef(engine_id, incarnation), request_id, blocks, chain, body, body_format)
    key = Conversation(tenant, conversation_id)
    return Terms(lease_id, Kind(kind), key, ticket_id, parent, handle, StopReason(stop_reason))


def target(given: Target) -> tuple[Asked, bytes]:
    """What is to be claimed, and the prompt's digests. `asked` tells targets apart."""
    digests = b""
    match given:
        case Branch(key, prompt):
            asked = {**conversation(key), "key_id": prompt.key_id, "stride": prompt.stride, "strides": prompt.strides}
            digests = prompt.digests
        case Prefill(ticket_id, of):
            asked = {"ticket_id": ticket_id, **({"engine": engine(of)} if of else {})}
        case ById(lease_id):
            asked = {"lease_id": lease_id}
    return asked | {"asked": sha256(json.dumps(asked).encode() + digests).hexdigest()}, digests


def topic(given: Target) -> tuple[str, str]:
    """What a claim on it may have to wait for."""
    match given:
        case Branch(key, _):
            return "conversation", f"{len(key.tenant.encode())} {key.tenant}{key.conversation_id}"
        case Prefill(ticket_id, _):
            return "turn", ticket_id
        case ById(lease_id):
            return "lease", lease_id


def renewal(given: Renewal) -> Asked:
    ttl: Mapping[str, float] = {} if given.ttl is None else {"ttl": given.ttl}
    return {"lease_id": given.lease_id, "conversation_id": given.conversation_id, **ttl}


def ending(given: TurnEnd) -> Asked:
    asked = {"ticket_id": given.ticket_id, "outcome": given.outcome, "stop_reason": given.stop_reason}
    decode = {"decode": engine(given.decode)} if given.decode else {}
    return {**asked, **conversation(given.conversation), **decode}


def wanted(given: Filter) -> Asked:
    return {
        "tenant": given.tenant,
        "conversation_id": given.conversation_id,
        "engine_id": given.engine_id,
        "kind": given.kind or 0,
        "state": given.state or 0,
    }
