"""A vLLM request, as far as the connector looks at it, and the tickets that come with it."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kvlease.v1.lease_pb2 import ConversationKey, EngineRef
from kvlease.v1.registry_pb2 import Engine
from kvlease.v1.router_pb2 import RouteMode, TicketTerms

PREFILL = EngineRef(engine_id="p", incarnation="p1")
DECODE = EngineRef(engine_id="d", incarnation="d1")
LAYOUT = "layout"


def engine(ref: EngineRef, kv_layout: str = LAYOUT) -> Engine:
    return Engine(ref=ref, kv_layout=kv_layout)


@dataclass
class Position:
    offset: int
    length: int = 1


@dataclass
class Feature:
    identifier: str
    mm_position: Position


@dataclass
class Lora:
    lora_name: str
    lora_path: str


@dataclass
class Request:
    """So many tokens of prompt and of answer."""

    prompt: Sequence[int] = tuple(range(1000))
    output: Sequence[int] = ()
    kv_transfer_params: dict[str, Any] | None = None
    request_id: str = "r"
    prompt_embeds: object = None
    lora_request: Lora | None = None
    cache_salt: str | None = None
    mm_features: Sequence[Feature] = field(default_factory=list)
    trace_headers: Mapping[str, str] | None = None

    @property
    def prompt_token_ids(self) -> list[int]:
        return list(self.prompt)

    @property
    def _all_token_ids(self) -> list[int]:
        return [*self.prompt, *self.output]

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt)

    @property
    def num_output_tokens(self) -> int:
        return len(self.output)

    @property
    def num_tokens(self) -> int:
        return len(self.prompt) + len(self.output)


def terms(
    *,
    ticket_id: str = "ticket",
    conversation: str = "c",
    tenant: str = "t",
    prefill: EngineRef | None = PREFILL,
    decode: EngineRef = DECODE,
) -> TicketTerms:
    """What a router would say; without *prefill* decode does it all."""
    made = TicketTerms(
        ticket_id=ticket_id,
        conversation=ConversationKey(tenant=tenant, conversation_id=conversation),
        mode=RouteMode.ROUTE_MODE_PREFILL_DECODE if prefill else RouteMode.ROUTE_MODE_DECODE_ONLY,
        prefill=prefill,
        decode=decode,
    )
    made.lifetime.FromSeconds(60)
    return made


def seal(said: TicketTerms, signature: str = "c2lnbmVk") -> str:
    body = base64.urlsafe_b64encode(said.SerializeToString()).rstrip(b"=").decode()
    return f"kvt1.{body}.{signature}"


def params(said: TicketTerms) -> dict[str, Any]:
    """What the gateway sends to both engines."""
    return {"kvlease_ticket": seal(said)}
