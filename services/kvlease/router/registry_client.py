"""The registry over gRPC, in the router's words."""

from collections.abc import Awaitable, Sequence
from typing import TypeAlias, TypeVar

from kvlease.client import trace
from kvlease.client.engine import EngineRegistryClient
from kvlease.client.errors import (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    KvleaseError,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
)
from kvlease.router.batch import Batch
from kvlease.router.convert import branch_of, engine_of
from kvlease.router.engine import Engine
from kvlease.router.errors import RegistryUnreachable
from kvlease.router.registry import Branch, RegistryRefused
from kvlease.router.ticket import Terms
from kvlease.v1.lease_pb2 import ConversationKey, EngineRef, PrefillReport, StopReason
from kvlease.v1.registry_pb2 import (
    EndTurnRequest,
    ListEnginesRequest,
    LocateConversationsRequest,
    TurnOutcome,
)

T = TypeVar("T")
Asked: TypeAlias = tuple[str, str, trace.Headers]
"""Tenant, conversation, and whose trace it is for."""
LOCATES = 2  # calls at a time, the second one while the first is late
LATE = 0.02  # seconds
GATHER = 0.001  # likewise, for turns that come together
MOST_LOCATED = 1000  # conversations; the registry takes no more at a time
ENGINES_TIMEOUT = 1.0  # seconds; nobody's request waits for it
# Said by a registry that works; the rest (no answer, not in time, not understood) is an outage for us.
REFUSALS = (
    AlreadyExists,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
)


class RegistryClient:
    """A Registry."""

    def __init__(self, client: EngineRegistryClient) -> None:
        self._client = client
        self._located = Batch(self._locate, most=MOST_LOCATED, at_a_time=LOCATES, late=LATE, gather=GATHER)

    async def engines(self) -> Sequence[Engine]:
        request = ListEnginesRequest(include_lost=True)
        answer = await _answer(self._client.list_engines(request, timeout=ENGINES_TIMEOUT))
        return [engine for status in answer.engines if (engine := engine_of(status))]

    async def branches(self, tenant: str, conversation_id: str, wait: float) -> Sequence[Branch]:
        try:
            return await self._located.get((tenant, conversation_id, trace.current()), wait)
        except TimeoutError as error:
            raise RegistryUnreachable("DEADLINE_EXCEEDED") from error

    async def _locate(self, asked: Sequence[Asked], wait: float) -> Sequence[Sequence[Branch]]:
        request = LocateConversationsRequest()
        for tenant, conversation_id, _ in asked:
            request.conversations.add(tenant=tenant, conversation_id=conversation_id)
        first = next((headers for _, _, headers in asked if headers), ())  # a call is of one trace
        with trace.carrying(first):
            answer = await _answer(self._client.locate_conversations(request, timeout=wait))
        return [[branch_of(branch) for branch in located.branches] for located in answer.located]

    async def end_turn(
        self, terms: Terms, outcome: TurnOutcome.ValueType, stop_reason: StopReason.ValueType, wait: float
    ) -> PrefillReport | None:
        request = EndTurnRequest(
            ticket_id=terms.ticket_id,
            conversation=ConversationKey(tenant=terms.tenant, conversation_id=terms.conversation_id),
            outcome=outcome,
            stop_reason=stop_reason,
            decode=EngineRef(**terms.decode._asdict()),
        )
        answer = await _answer(self._client.end_turn(request, timeout=wait, tenant=terms.tenant))
        return answer.report if answer.HasField("report") else None


async def _answer(call: Awaitable[T]) -> T:
    try:
        return await call
    except REFUSALS as error:
        raise RegistryRefused(str(error)) from error
    except KvleaseError as error:
        raise RegistryUnreachable(error.reason or type(error).__name__) from error
