"""Routes turns: who holds the conversation, which engines, a ticket."""

from collections.abc import Callable
from typing import NamedTuple

from kvlease.router.dispatched import Dispatched
from kvlease.router.engine import EngineKey
from kvlease.router.errors import ModelNotFound, NoEngine, RequestIdTaken
from kvlease.router.fleet import Fleet
from kvlease.router.holdings import Holding, Holdings
from kvlease.router.names import Names
from kvlease.router.placement import Placement, Placer, Turn
from kvlease.router.record import Decision, Record
from kvlease.router.roster import Roster
from kvlease.router.ticket import Terms, TicketKey
from kvlease.router.tickets import Tickets


class Ask(NamedTuple):
    """A request to be routed."""

    tenant: str
    request_id: str
    conversation_id: str
    model: str
    prompt_tokens: int
    excluded: frozenset[EngineKey]
    wait: float
    """Most that asking the registry may add, in seconds."""


class Router:
    """Decides once per request id, until the ticket is over or one of its engines is excluded."""

    def __init__(
        self,
        *,
        holdings: Holdings,
        roster: Roster,
        placer: Placer,
        tickets: Tickets,
        dispatched: Dispatched,
        key: TicketKey,
        lifetime: float,
        clock: Callable[[], float],
    ) -> None:
        """Issues tickets that live *lifetime* seconds."""
        self._holdings = holdings
        self._roster = roster
        self._placer = placer
        self._tickets = tickets
        self._dispatched = dispatched
        self._key = key
        self._names = Names()
        self._lifetime = lifetime
        self._clock = clock

    async def route(self, ask: Ask) -> tuple[Record, Decision]:
        """Returns the turn and how it was decided.

        Raises ModelNotFound, NoEngine, RegistryUnreachable, RequestIdTaken.
        """
        known = self._known(ask)
        if known:
            return known
        deadline = self._clock() + ask.wait
        fleet = await self._roster.fleet(ask.wait)
        holding = await self._find(ask, deadline - self._clock())
        placement = await self._place(fleet, ask, holding, deadline)
        return self._known(ask) or self._issue(ask, holding, placement)  # a retry may have overtaken this call

    async def _find(self, ask: Ask, wait: float) -> Holding:
        if not ask.conversation_id:
            return Holding(None, reachable=self._roster.reachable)
        return await self._holdings.find(ask.tenant, ask.conversation_id, ask.prompt_tokens, wait)

    def _known(self, ask: Ask) -> tuple[Record, Decision] | None:
        record = self._tickets.by_request(ask.tenant, ask.request_id)
        if record is None or record.decision is None or record.over:
            return None
        if (record.terms.conversation_id, record.decision.model) != (ask.conversation_id, ask.model):
            raise RequestIdTaken(ask.request_id)
        if record.terms.decode in ask.excluded or record.terms.prefill in ask.excluded:
            return None
        return record, record.decision

    async def _place(self, fleet: Fleet, ask: Ask, holding: Holding, deadline: float) -> Placement:
        turn = Turn(ask.model, holding.holder, ask.excluded, rendezvous=holding.reachable)
        try:
            return self._placer.place(fleet, turn)
        except (ModelNotFound, NoEngine):  # an engine may have come since the registry was asked last
            await self._roster.refresh_within(deadline - self._clock())
        return self._placer.place(await self._roster.fleet(deadline - self._clock()), turn)

    def _issue(self, ask: Ask, holding: Holding, placement: Placement) -> tuple[Record, Decision]:
        terms = Terms(
            ticket_id=self._names.take(),
            tenant=ask.tenant,
            conversation_id=ask.conversation_id,
            prefill=placement.prefill.key if placement.prefill else None,
            decode=placement.decode.key,
            base_generation=holding.generation,
            lifetime=self._lifetime,
        )
        decision = Decision(ask.request_id, ask.model, holding.tokens, placement, self._key.seal(terms))
        now = self._clock()
        record = Record(terms, now, now + self._lifetime, decision, new=holding.new)
        self._tickets.add(record)
        self._dispatched.routed(terms)
        if ask.conversation_id:
            self._holdings.remember(ask.tenant, ask.conversation_id, terms.decode)
        return record, decision
