"""What is kept of a finished request: its blocks, by reference, and the lease that is asked for them."""

import enum
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kvlease.client.trace import carrying
from kvlease.connector import body
from kvlease.connector.admission import chain_of
from kvlease.connector.clock import Clock
from kvlease.connector.link import Link
from kvlease.connector.owner import Owner
from kvlease.connector.prefix import STRIDE
from kvlease.connector.retention import Retention
from kvlease.connector.settings import Settings
from kvlease.connector.turn import Source, Turn
from kvlease.v1.lease_pb2 import Handle, LeaseKind, StopReason
from kvlease.v1.registry_pb2 import Engine, GrantLeaseRequest


class Ending(enum.Enum):
    """How a request ended of which something may be kept."""

    STOPPED = enum.auto()
    LENGTH = enum.auto()
    ABORTED = enum.auto()


class Harvest:
    """Keeps and leases the blocks of finished turns."""

    def __init__(
        self,
        owner: Owner,
        link: Link,
        retention: Retention,
        engine: Engine,
        *,
        settings: Settings,
        parameters: Mapping[str, Any],
        block_size: int,
        clock: Clock,
    ) -> None:
        """Takes NIXL's *parameters* of this engine and the tokens per block."""
        self._owner, self._link, self._retention = owner, link, retention
        self._engine, self._settings, self._parameters, self._block_size = engine, settings, parameters, block_size
        self._clock = clock

    def reap(self, turn: Turn, request: Any, groups: Sequence[Sequence[int]], ending: Ending, *, computed: int) -> None:
        """Keeps the blocks in *groups* if the turn's KV is worth a lease, and asks for it.

        *computed*: tokens whose KV the engine has computed, no step in flight counted. It only ever shortens: a
        request that was preempted has fewer than its tokens say.
        """
        tokens = min(self._worth(turn, request, ending), computed)
        if len(groups) == 1:
            tokens = min(tokens, len(groups[0]) * self._block_size)
            groups = (groups[0][: -(-tokens // self._block_size)],)
        if tokens < self._least(turn) or not self._link.connected:  # with the registry silent nobody could find it
            self.forgo(turn)
            return
        now = self._clock()
        turn.report.prefill_duration.FromMicroseconds(round((now - turn.arrived) * 1e6))
        lease_id = uuid.uuid4().hex
        blocks = self._retention.keep(lease_id, groups)
        grant = GrantLeaseRequest(
            lease_id=lease_id,
            kind=turn.keeps,
            conversation=turn.terms.conversation,
            ticket_id=turn.terms.ticket_id,
            parent_lease_id=turn.parent_lease_id,
            handle=Handle(
                engine=self._engine.ref,
                request_id=request.request_id,
                token_count=tokens,
                block_count=blocks,
                body_format=body.CODEC.format,
            ),
            stop_reason=_STOP_REASONS.get(ending, StopReason.STOP_REASON_UNSPECIFIED),
            report=turn.report,
        )
        self._owner.keep(grant, now)
        with carrying(turn.trace):
            self._link.grant(grant, self._filler(turn, request, groups), turn.ticket)
            if turn.source is not Source.PREFILL:
                self._link.publish(turn.ticket, grant)

    def forgo(self, turn: Turn) -> None:
        """Keeps nothing of a turn; nobody need wait for it: decode for its prefill, nor the next turn for decode."""
        conversation = turn.terms.conversation
        with carrying(turn.trace):
            if turn.keeps == LeaseKind.LEASE_KIND_PREFILL:
                self._link.forgo(turn.ticket, conversation.tenant)
            elif conversation.conversation_id:
                self._link.keep_nothing(turn.terms.ticket_id, conversation)

    def _worth(self, turn: Turn, request: Any, ending: Ending) -> int:
        """Returns the tokens whose KV is to be leased: all whose KV is there for certain; 0: none.

        They are counted from tokens: the last one that was sampled has no KV yet. A request that vLLM aborted may
        have ended on a client's stop string: the gateway tells the registry whether it was answered.
        """
        if turn.keeps == LeaseKind.LEASE_KIND_PREFILL:
            return 0 if ending is Ending.ABORTED else turn.prompt_tokens
        if not self._settings.bidirectional or not turn.terms.conversation.conversation_id:
            return 0
        return request.num_tokens - 1 if request.num_output_tokens else 0

    def _least(self, turn: Turn) -> int:
        """Returns how few tokens are kept: for a later turn, no fewer than are worth reading, and can be claimed."""
        return max(STRIDE, self._settings.recompute_threshold) if turn.keeps == LeaseKind.LEASE_KIND_DECODE else 1

    def _filler(self, turn: Turn, request: Any, groups: Sequence[Sequence[int]]) -> Callable[[GrantLeaseRequest], None]:
        """Returns what adds the digests and the body: too long for the scheduling loop."""

        def fill(grant: GrantLeaseRequest) -> None:
            count = grant.handle.token_count
            chain = chain_of(
                request, turn.terms, self._settings, self._engine.kv_layout, request._all_token_ids[:count]
            )
            grant.handle.chain.CopyFrom(chain.prefix(count))
            grant.handle.body = body.CODEC.encode(self._parameters, groups)

        return fill


_STOP_REASONS = {Ending.LENGTH: StopReason.STOP_REASON_LENGTH}
