"""The gateway and its clients in small: turns of conversations over two legs, as `kvlease.gateway.attempt` sends them.

HTTP to the engines is always fair, it is the control plane that is tried here. Calls to the router and the registry
have the gateway's deadlines.
"""

import asyncio
import contextlib
from array import array
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from kvlease.client.engine import EngineRegistryClient, EngineRouterClient
from kvlease.client.errors import DeadlineExceeded, KvleaseError, Unavailable
from kvlease.sim.request import Finish, Request
from kvlease.sim.sequence import Sequence
from kvlease.v1.lease_pb2 import STOP_REASON_ANSWERED, STOP_REASON_TOOLS_CALLED
from kvlease.v1.registry_pb2 import EndConversationRequest, LeaseRenewal, RenewLeasesRequest
from kvlease.v1.router_pb2 import LEG_PREFILL, LEG_UNSPECIFIED, CancelTicketRequest, CompleteTicketRequest
from tests.protocol.calls import Hosts
from tests.protocol.engine import BLOCK, Engine
from tests.protocol.services import REGISTRY, ROUTER
from tests.protocol.timeline import Process

COMPLETE_WITHIN, CANCEL_WITHIN = 0.05, 2.0
WORDS = 3
TENANT = "tenant"
REMEMBERED = 4
"""Answers of a conversation that its client may go on from."""

Tokens: TypeAlias = "array[int]"


class Leg:
    """One request to one engine. Ends once: with what the engine says, or with None when the connection is lost."""

    request: Request

    def __init__(self, gateway: Process, engine: Engine) -> None:
        self.engine = engine
        self.ended: asyncio.Future[Finish | None] = gateway.loop.create_future()
        self._gateway = gateway

    def begin(self, request: Request) -> None:
        """Nothing is streamed."""

    def word(self, word: int) -> None:
        """Nothing is streamed."""

    def end(self, _: Request, finish: Finish) -> None:
        """The engine has ended it."""
        self._gateway.deliver(partial(self.settle, finish))

    def settle(self, finish: Finish | None) -> None:
        """The gateway learns the end."""
        if not self.ended.done():
            self.ended.set_result(finish)


@dataclass(eq=False)
class Turn:
    """A prompt, and what it takes to have it answered."""

    name: str
    conversation_id: str
    prompt: Tokens
    ticket: str
    decode: Engine
    prefill: Engine | None = None
    tools: bool = False
    legs: list[Leg] = field(default_factory=list)
    answered: bool = False


class Gateway:
    """Serves turns, and says of conversations what applications say."""

    def __init__(self, process: Process, hosts: Hosts, engine: Callable[[str], Engine | None]) -> None:
        """Finds out with *engine* who listens at an engine's address now."""
        self.process = process
        self.turns: list[Turn] = []
        """Those that are not over."""
        self.histories: dict[str, list[Tokens]] = {}
        """What clients have of each conversation, newest last: prompt and answer."""
        self._engine = engine
        self._tasks: set[asyncio.Task[None]] = set()
        self._router = hosts.client(EngineRouterClient, process, ROUTER)
        self._registry = hosts.client(EngineRegistryClient, process, REGISTRY)

    def begin(self, turn: Turn) -> None:
        """Sends both legs at once."""
        self.turns.append(turn)
        self._spawn(self._serve(turn))

    def leave(self, turn: Turn) -> None:
        """The client goes away."""
        for leg in turn.legs:
            self._abort(leg)
            leg.settle(Finish.ABORT)

    def lost(self, engine: Engine) -> None:
        """An engine is gone, and so are its connections."""
        for leg in [leg for turn in self.turns for leg in turn.legs if leg.engine is engine]:
            self.process.deliver(partial(leg.settle, None))

    def renew(self, conversation_id: str) -> None:
        """Asks for more time for a conversation."""
        request = RenewLeasesRequest(renewals=[LeaseRenewal(conversation_id=conversation_id)])
        self._ask(self._registry.renew_leases(request, tenant=TENANT))

    def end(self, conversation_id: str) -> None:
        """Ends a conversation."""
        request = EndConversationRequest(conversation_id=conversation_id)
        self._ask(self._registry.end_conversation(request, tenant=TENANT))

    def cancel(self, ticket: str) -> None:
        """Ends a turn, answered or not."""
        self._ask(self._cancelled(ticket, prefill=False))

    async def _serve(self, turn: Turn) -> None:
        if turn.prefill is not None:
            self._spawn(self._prefill(turn, self._send(turn, turn.prefill, "prefill", 1)))
        decode = self._send(turn, turn.decode, "decode", BLOCK)
        if await decode.ended in (Finish.STOP, Finish.TOOLS):
            turn.answered = True
            self._remember(turn, decode.request.sequence.tokens)
            await self._completed(turn)
        else:
            await self._cancelled(turn.ticket, prefill=False)
        for leg in turn.legs:
            self._abort(leg)
        self.turns.remove(turn)

    async def _prefill(self, turn: Turn, leg: Leg) -> None:
        if await leg.ended is None:  # an engine that ends a leg itself says so itself
            await self._cancelled(turn.ticket, prefill=True)

    def _send(self, turn: Turn, engine: Engine, name: str, most: int) -> Leg:
        """Sends a leg to whoever listens now at that engine's address."""
        listener = self._engine(engine.process.name)
        leg = Leg(self.process, listener or engine)
        leg.request = Request(
            request_id=f"{turn.name}-{name}",
            sequence=Sequence(turn.prompt[:], BLOCK),
            num_prompt_tokens=len(turn.prompt),
            max_tokens=most,
            natural=WORDS,
            sink=leg,
            tools=turn.tools,
            kv_transfer_params={"kvlease_ticket": turn.ticket},
        )
        turn.legs.append(leg)
        if listener is None:
            leg.settle(None)
        else:
            listener.process.deliver(partial(listener.submit, leg.request))
        return leg

    def _abort(self, leg: Leg) -> None:
        leg.engine.process.deliver(partial(leg.engine.abort, leg.request))

    def _remember(self, turn: Turn, tokens: Tokens) -> None:
        known = self.histories.setdefault(turn.conversation_id, [])
        known.append(tokens[:])
        del known[:-REMEMBERED]

    async def _completed(self, turn: Turn) -> None:
        stopped = STOP_REASON_TOOLS_CALLED if turn.tools else STOP_REASON_ANSWERED
        request = CompleteTicketRequest(ticket=turn.ticket, stop_reason=stopped)
        with contextlib.suppress(KvleaseError):
            await self._router.complete_ticket(request, timeout=COMPLETE_WITHIN, tenant=TENANT)

    async def _cancelled(self, ticket: str, *, prefill: bool) -> None:
        """Stands for `kvlease.gateway.tickets.Tickets`: that prefill failed is told until it is heard."""
        request = CancelTicketRequest(ticket=ticket, leg=LEG_PREFILL if prefill else LEG_UNSPECIFIED)
        for _ in range(240 if prefill else 1):
            try:
                await self._router.cancel_ticket(request, timeout=CANCEL_WITHIN, tenant=TENANT)
            except (Unavailable, DeadlineExceeded):
                await asyncio.sleep(0.5)
            except KvleaseError:
                return
            else:
                return

    def _ask(self, call: Awaitable[object]) -> None:
        async def answered() -> None:
            with contextlib.suppress(KvleaseError):
                await call

        self._spawn(answered())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.process.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
