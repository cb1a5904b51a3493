"""Messages inside requests, as values of the domain. `at` is a part's path in its request."""

from functools import lru_cache
from operator import lt
from sys import intern

from kvlease.registry.announcements import Announced
from kvlease.registry.chain import DIGEST, Chain, Prompt
from kvlease.registry.checks import Checks
from kvlease.registry.claims import Branch
from kvlease.registry.lease import Conversation, EngineRef, Handle, Kind, State, StopReason, Terms
from kvlease.registry.lists import Filter
from kvlease.registry.renewals import Renewal
from kvlease.v1 import lease_pb2, registry_pb2

MAX_ID = 128
MAX_NAME = 256
MAX_REQUEST_ID = 1024
MAX_BOUNDARIES = 256
MAX_GENERATION = 2**53 - 1
"""Above it stores that count in floating point lose count."""
LONGEST = 10 * 365 * 86400.0
"""Seconds; a longer time is a mistake."""
_KINDS = {int(kind): kind for kind in Kind}
_STOP_REASONS = {int(reason): reason for reason in StopReason}
_FILTER_KINDS = (0, *Kind)
_FILTER_STATES = (0, *State)


def announced(checks: Checks, given: lease_pb2.Lease, at: str) -> Announced:
    """Reads a lease as its owner knows it."""
    remaining = checks.seconds(given.remaining, f"{at}.remaining", LONGEST)
    checks.that(given.generation <= MAX_GENERATION, f"{at}.generation", f"must be at most {MAX_GENERATION}")
    return Announced(terms(checks, given, f"{at}."), given.generation, remaining)


def terms(checks: Checks, given: registry_pb2.GrantLeaseRequest | lease_pb2.Lease, at: str) -> Terms:
    """Reads what the owner says of a lease."""
    kind = checks.one_of(given.kind, _KINDS, f"{at}kind")
    prefill = kind == Kind.PREFILL
    stop_reason = checks.one_of(given.stop_reason, _STOP_REASONS, f"{at}stop_reason")
    key = conversation_key(checks, given.conversation, f"{at}conversation", kept=not prefill)
    return Terms(
        lease_id=checks.name(given.lease_id, f"{at}lease_id", MAX_ID),
        kind=Kind.PREFILL if prefill else Kind.DECODE,
        conversation=key,
        ticket_id=checks.name(given.ticket_id, f"{at}ticket_id", MAX_NAME, optional=not prefill),
        parent_lease_id=checks.name(given.parent_lease_id, f"{at}parent_lease_id", MAX_ID, optional=True),
        handle=handle(checks, given.handle, f"{at}handle"),
        stop_reason=_STOP_REASONS.get(stop_reason, StopReason.UNKNOWN),
    )


def handle(checks: Checks, given: lease_pb2.Handle, at: str) -> Handle:
    """Reads where KV lies."""
    chain, tokens, blocks = given.chain, given.token_count, given.block_count
    stride, digests = chain.stride, chain.digests
    checks.that(tokens > 0, f"{at}.token_count", "must be above 0")
    checks.that(blocks > 0, f"{at}.block_count", "must be above 0")
    checks.that(stride > 0, f"{at}.chain.stride", "must be above 0")
    if stride and len(digests) != (expected := DIGEST * -(-tokens // stride)):
        checks.that(False, f"{at}.chain.digests", f"must be {expected} bytes, 8 for every stride")
    return Handle(
        engine=engine_ref(checks, given.engine, f"{at}.engine"),
        request_id=checks.name(given.request_id, f"{at}.request_id", MAX_REQUEST_ID),
        block_count=blocks,
        chain=Chain(intern(checks.name(chain.key_id, f"{at}.chain.key_id", MAX_NAME)), stride, tokens, digests),
        body=given.body,
        body_format=intern(checks.name(given.body_format, f"{at}.body_format", MAX_NAME)),
    )


def renewal(checks: Checks, given: registry_pb2.LeaseRenewal, at: str) -> Renewal:
    """Reads one renewal."""
    match given.WhichOneof("target"):
        case "lease_id":
            checks.name(given.lease_id, f"{at}.lease_id", MAX_ID)
        case "conversation_id":
            checks.name(given.conversation_id, f"{at}.conversation_id", MAX_NAME)
        case _:
            checks.that(False, f"{at}.target", "must be given")
    ttl = checks.seconds(given.ttl, f"{at}.ttl", LONGEST) if given.HasField("ttl") else None
    return Renewal(given.lease_id, given.conversation_id, ttl)


def branch(checks: Checks, given: registry_pb2.BranchTarget) -> Branch:
    """Reads a reader's prompt."""
    key_id, stride, strides, digests = given.key_id, given.stride, tuple(given.strides), given.digests
    checks.name(key_id, "branch.key_id", MAX_NAME)
    checks.that(stride > 0, "branch.stride", "must be above 0")
    ascending = all(map(lt, (0, *strides), strides))
    checks.that(ascending, "branch.strides", "must be above 0 and ascend")
    checks.that(len(strides) <= MAX_BOUNDARIES, "branch.strides", f"must be at most {MAX_BOUNDARIES}")
    if len(digests) != (expected := DIGEST * len(strides)):
        checks.that(False, "branch.digests", f"must be {expected} bytes, 8 for every boundary")
    key = conversation_key(checks, given.conversation, "branch.conversation", kept=True)
    return Branch(key, Prompt(key_id, stride, strides, digests))


def conversation_key(checks: Checks, given: lease_pb2.ConversationKey, at: str, *, kept: bool) -> Conversation:
    """Reads a conversation; one that is not to be kept may have no id."""
    return Conversation(
        intern(checks.name(given.tenant, f"{at}.tenant", MAX_NAME)),
        checks.name(given.conversation_id, f"{at}.conversation_id", MAX_NAME, optional=not kept),
    )


def engine_ref(checks: Checks, given: lease_pb2.EngineRef, at: str) -> EngineRef:
    """Reads one start of one engine."""
    return _shared(
        checks.name(given.engine_id, f"{at}.engine_id", MAX_NAME),
        checks.name(given.incarnation, f"{at}.incarnation", MAX_NAME),
    )


@lru_cache(4096)
def _shared(engine_id: str, incarnation: str) -> EngineRef:
    """One value for all leases of an engine."""
    return EngineRef(engine_id, incarnation)


def lease_filter(checks: Checks, given: registry_pb2.LeaseFilter, tenant: str) -> Filter:
    """Reads which of the tenant's leases are wanted."""
    kind = checks.one_of(given.kind, _FILTER_KINDS, "filter.kind")
    state = checks.one_of(given.state, _FILTER_STATES, "filter.state")
    checks.name(given.conversation_id, "filter.conversation_id", MAX_NAME, optional=True)
    checks.name(given.engine_id, "filter.engine_id", MAX_NAME, optional=True)
    checks.done()
    return Filter(
        tenant, given.conversation_id, given.engine_id, Kind(kind) if kind else None, State(state) if state else None
    )
