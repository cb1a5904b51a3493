"""A request that comes with a ticket for this engine becomes a turn."""

from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from kvlease.client import trace
from kvlease.connector.prefix import Chain, Item
from kvlease.connector.settings import Settings
from kvlease.connector.ticket import BadTicketError, read
from kvlease.connector.turn import Source, Turn
from kvlease.v1.lease_pb2 import LeaseKind
from kvlease.v1.registry_pb2 import Engine
from kvlease.v1.router_pb2 import RouteMode, TicketTerms

log = structlog.get_logger()


def admit(request: Any, engine: Engine, settings: Settings, now: float, *, groups: int) -> Turn | None:
    """Returns the turn of vLLM's *request*; None: it has no ticket that concerns *engine*, or cannot be leased."""
    params = request.kv_transfer_params
    ticket = params.get("kvlease_ticket") if params else None
    if not isinstance(ticket, str) or request.prompt_embeds is not None:
        return None
    try:
        terms = read(ticket)
    except BadTicketError as error:
        log.warning("ticket not used", request_id=request.request_id, why=str(error))
        return None
    prefill = terms.mode == RouteMode.ROUTE_MODE_PREFILL_DECODE and terms.prefill == engine.ref
    if not prefill and terms.decode != engine.ref:
        log.warning("ticket not used", request_id=request.request_id, why="it names other engines", terms=str(terms))
        return None
    # stock code shortens some models' prompts for prefill, and does nothing else with these
    request.kv_transfer_params = {"do_remote_decode": True} if prefill else {}
    return Turn(
        request_id=request.request_id,
        ticket=ticket,
        terms=terms,
        source=_source(terms, prefill, settings),
        keeps=LeaseKind.LEASE_KIND_PREFILL if prefill else LeaseKind.LEASE_KIND_DECODE,
        chain=lambda: chain_of(request, terms, settings, engine.kv_layout, request.prompt_token_ids),
        prompt_tokens=request.num_prompt_tokens,
        arrived=now,
        deadline=now + settings.wait,
        trace=trace.read((request.trace_headers or {}).items()),
        whole_only=groups > 1,
    )


def orphaned(params: Mapping[str, Any] | None, engine: Engine) -> TicketTerms | None:
    """Returns the terms of a ticket whose prefill was to be an earlier start of *engine*.

    This start gives no lease for it, and decode would wait for one.
    """
    ticket = params.get("kvlease_ticket") if params else None
    if not isinstance(ticket, str):
        return None
    try:
        terms = read(ticket)
    except BadTicketError:
        return None
    mine = terms.mode == RouteMode.ROUTE_MODE_PREFILL_DECODE and terms.prefill.engine_id == engine.ref.engine_id
    return terms if mine and terms.prefill.incarnation != engine.ref.incarnation else None


def chain_of(request: Any, terms: TicketTerms, settings: Settings, kv_layout: str, tokens: Sequence[int]) -> Chain:
    """Digests *tokens*, and whatever else decides the KV of *request* and how it lies in the blocks."""
    lora = request.lora_request
    facts = {
        "tenant": terms.conversation.tenant,
        "kv_layout": kv_layout,
        "lora": f"{lora.lora_name}:{lora.lora_path}" if lora else "",
        "cache_salt": request.cache_salt or "",
    }
    items = [Item(feature.mm_position.offset, feature.identifier) for feature in request.mm_features or ()]
    return Chain(settings.digest_key, settings.digest_key.seed(facts), tokens, items)


def _source(terms: TicketTerms, prefill: bool, settings: Settings) -> Source:
    if not prefill and terms.mode == RouteMode.ROUTE_MODE_PREFILL_DECODE:
        return Source.PREFILL
    return Source.BRANCH if settings.bidirectional and terms.conversation.conversation_id else Source.NOTHING
