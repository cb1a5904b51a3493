"""A link that goes nowhere: it remembers what it was asked, and the test answers."""

from collections import deque
from collections.abc import Callable
from typing import Any

from kvlease.connector.claim import Claim
from kvlease.connector.owner import Owner
from kvlease.connector.turn import Answer, Turn
from kvlease.v1.lease_pb2 import ConversationKey
from kvlease.v1.registry_pb2 import Engine, EngineLoad, FreeOrder, GrantLeaseRequest, Order, ReadOutcome

HOLD = 12.0


class FakeLink:
    """Takes what a `Link` takes. Starts nothing."""

    def __init__(
        self,
        _registry: object,
        _router: object,
        engine: Engine,
        owner: Owner,
        *,
        load: Callable[[], EngineLoad],
        wake: Callable[[], None],
        clock: Callable[[], float],
        **_: Any,
    ) -> None:
        self.engine, self.owner, self.load, self.wake, self.clock = engine, owner, load, wake, clock
        owner.opened(HOLD, clock())
        self.connected = True
        self.answered: deque[Turn] = deque()
        self.asked: list[Turn] = []
        self.finished: list[tuple[Claim, str, int]] = []
        self.grants: list[GrantLeaseRequest] = []
        self.published: list[str] = []
        self.forgone: list[str] = []
        self.kept_nothing: list[str] = []
        self.reclaimed: list[int] = []
        self.freed: list[str] = []
        self.looks: list[float] = []
        self.released = 0
        self.started = self.closed = False

    def start(self) -> None:
        self.started = True

    def close(self, _wait: float) -> None:
        self.closed = True

    def ask(self, turn: Turn) -> None:
        self.asked.append(turn)

    def answer(self, answer: Answer, turn: Turn | None = None) -> bool:
        """Answers *turn*, by default the last one asked for; False: it was over already."""
        turn = turn or self.asked[-1]
        if settled := turn.settle(answer):
            self.answered.append(turn)
        return settled

    def finish(self, claim: Claim, outcome: "ReadOutcome.ValueType", tokens: int = 0) -> None:
        name = ReadOutcome.Name(outcome).removeprefix("READ_OUTCOME_")
        self.finished.append((claim, name, tokens))

    @property
    def outcomes(self) -> list[tuple[str, int]]:
        """How each claim ended, and how many tokens were used of it."""
        return [(outcome, tokens) for _, outcome, tokens in self.finished]

    def grant(self, request: GrantLeaseRequest, fill: Callable[[GrantLeaseRequest], None], _ticket: str) -> None:
        fill(request)
        self.grants.append(request)
        self.owner.granted(request.lease_id, 1, 60.0, self.clock())

    def publish(self, ticket: str, _request: GrantLeaseRequest) -> None:
        self.published.append(ticket)

    def forgo(self, ticket: str, _tenant: str) -> None:
        self.forgone.append(ticket)

    def keep_nothing(self, ticket_id: str, _conversation: ConversationKey) -> None:
        self.kept_nothing.append(ticket_id)

    def order_free(self, *grants: GrantLeaseRequest) -> None:
        """The registry's next heartbeat answer orders the blocks of *grants* free."""
        self.heartbeat(*(Order(lease_id=grant.lease_id, free=FreeOrder()) for grant in grants))
        self.wake()

    def heartbeat(self, *orders: Order) -> None:
        """The registry answers a heartbeat, if it answers at all."""
        if self.connected:
            number, freed = self.owner.report()
            self.freed += freed
            self.owner.answered(number + 1, orders, self.clock(), len(freed))

    def release_all(self) -> None:
        """Answers at once that nothing is read any more."""
        self.released += 1
        for grant in self.grants:
            self.owner.over(grant.lease_id, "released")

    def look_later(self, seconds: float) -> None:
        self.looks.append(self.clock() + seconds)

    def beat(self, reclaim_blocks: int = 0) -> None:
        self.reclaimed.append(reclaim_blocks)
