"""One request's way through an engine, and what is read for it. Pure: no vLLM, no gRPC, no clock.

The link (see `link.py`) answers a turn from its own thread by setting `answer` once. vLLM's scheduler thread asks
`offer`, starts the read, and judges it when it has ended.
"""

import enum
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvlease.client.trace import Headers
from kvlease.connector.claim import Claim
from kvlease.connector.prefix import Chain
from kvlease.v1.lease_pb2 import LeaseKind, PrefillReport
from kvlease.v1.registry_pb2 import ReadOutcome
from kvlease.v1.router_pb2 import TicketTerms

QUARANTINE = 60.0  # seconds that the blocks of a hung read stay out of use: NIXL might still write them
_HUNG_BASE, _HUNG_PER_TOKEN = 3.0, 0.0005  # seconds


class Source(enum.Enum):
    """What a request reads KV from."""

    NOTHING = enum.auto()
    BRANCH = enum.auto()  # a decode engine's lease of the conversation
    PREFILL = enum.auto()  # prefill's lease of this turn


@dataclass(frozen=True, slots=True)
class Answer:
    """What the control plane said: a claim and the tokens that it proves, or why there is none."""

    claim: Claim | None = None
    proved: int = 0
    params: Mapping[str, Any] = field(default_factory=dict)  # the handle's body, decoded
    miss: str = ""


class Stage(enum.Enum):
    """Where the read is. It only moves forward, so nothing is promised to vLLM twice."""

    ASKED = enum.auto()  # the answer is awaited, or there and not used yet
    PARKED = enum.auto()  # blocks are allocated, the read waits for the answer
    READING = enum.auto()
    OVER = enum.auto()


@dataclass(slots=True)
class Turn:
    """A request with a ticket."""

    request_id: str
    ticket: str
    terms: TicketTerms
    source: Source
    keeps: "LeaseKind.ValueType"
    chain: Callable[[], Chain]  # made by the link, off the scheduler's thread
    prompt_tokens: int
    deadline: float  # of the answer, where the request waits for it unparked
    trace: Headers = ()  # of the request, for what is asked and told for it
    whole_only: bool = False  # a shortened prefix cannot be read (several KV-cache groups)
    answer: Answer | None = None
    stage: Stage = Stage.ASKED
    arrived: float = 0.0
    waited: bool = False  # vLLM asked before the answer was there
    local_tokens: int = 0  # found in the local prefix cache
    report: PrefillReport = field(default_factory=PrefillReport)
    _closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def claim(self) -> Claim | None:
        """The claim, once there is one."""
        return self.answer.claim if self.answer else None

    @property
    def params(self) -> Mapping[str, Any]:
        """The claimed handle's transfer parameters."""
        return self.answer.params if self.answer else {}

    @property
    def usable_tokens(self) -> int:
        """Tokens of the prompt that the answer proves."""
        return min(self.answer.proved, self.prompt_tokens) if self.answer else 0

    def begin(self, local_tokens: int) -> None:
        """Notes the local prefix-cache hit with which vLLM begins to schedule the request, or begins again."""
        self.local_tokens = local_tokens
        if self.stage is Stage.OVER:
            self.used(local_tokens, 0)

    def offer(self, local_tokens: int, threshold: int, now: float) -> int | None:
        """Returns how many tokens beyond *local_tokens* may be read; None: ask again shortly.

        Once the read was tried this is 0 for ever: vLLM asks again after a failed load and after preemption.
        """
        if self.stage is not Stage.ASKED or self.source is Source.NOTHING:
            return 0
        if self.answer is None and now < self.deadline:
            self.waited = True
            return None
        if self.waited:
            self.waited = False
            self.report.added_wait.FromMicroseconds(round((now - self.arrived) * 1e6))
        self.settle(Answer(miss="WAIT_OVER"))
        usable = self.usable_tokens
        if self.whole_only and self.claim and usable < self.claim.lease.handle.token_count:
            usable = 0
        count = usable - local_tokens
        return count if self.claim and count >= max(1, threshold) else 0

    def parking(self, count: int) -> int:
        """Returns *count* as long as prefill's KV may still come: the request is parked for it."""
        awaited = self.answer is None or self.answer.claim is not None
        return max(0, count) if self.stage is Stage.ASKED and awaited else 0

    def settle(self, answer: Answer) -> bool:
        """Sets the answer; False: there was one already, from the other thread."""
        with self._lock:
            if self.answer is not None:
                return False
            self.answer = answer
            return True

    def used(self, local_tokens: int, read_tokens: int) -> None:
        """Notes what the prompt's KV is made of."""
        self.report.prompt_tokens = self.prompt_tokens
        self.report.local_tokens = local_tokens
        self.report.reused_tokens = read_tokens
        self.report.computed_tokens = max(0, self.prompt_tokens - local_tokens - read_tokens)
        if self.stage is Stage.ASKED:
            self.report.miss_reason = self._miss(local_tokens, read_tokens)

    def judge(self, now: float, *, failed: bool) -> "ReadOutcome.ValueType":
        """Tells how a read went, when all ranks have reported: what is not USED must be thrown away."""
        if failed:
            self.fail("READ_FAILED")
            return ReadOutcome.READ_OUTCOME_FAILED
        if self.claim is None or not self.claim.holds(now):
            self.fail("READ_LATE")
            return ReadOutcome.READ_OUTCOME_LATE
        return ReadOutcome.READ_OUTCOME_USED

    def fail(self, why: str) -> None:
        """Notes that nothing was read after all."""
        self.used(self.local_tokens, 0)
        self.report.miss_reason = why

    def close(self) -> Claim | None:
        """Ends the reading, for good; returns the claim to finish, the first time."""
        self.stage = Stage.OVER
        if self.settle(Answer(miss="NOT_READ")) or self._closed:
            return None
        self._closed = True
        return self.claim

    @property
    def parent_lease_id(self) -> str:
        """The lease that the prompt grew from, where it was covered whole."""
        if self.claim is None or self.answer is None:
            return ""
        lease = self.claim.lease
        if self.source is Source.PREFILL:
            return lease.parent_lease_id
        return lease.lease_id if self.answer.proved == lease.handle.token_count else ""

    def _miss(self, local_tokens: int, read_tokens: int) -> str:
        if self.source is Source.NOTHING and self.terms.conversation.conversation_id:
            return "NOT_BIDIRECTIONAL"
        if self.source is not Source.BRANCH or read_tokens:
            return ""
        if self.claim is None:
            return self.answer.miss if self.answer else "WAIT_OVER"
        if self.usable_tokens <= local_tokens:
            return "FOUND_LOCALLY" if local_tokens else "NO_MATCH"
        return "BELOW_THRESHOLD"


def hangs_after(tokens: int) -> float:
    """Returns the seconds after which a read of so many tokens counts as hung."""
    return _HUNG_BASE + _HUNG_PER_TOKEN * tokens
