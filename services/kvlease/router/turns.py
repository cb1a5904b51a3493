"""What becomes of a routed turn: engines resolve its ticket, prefill publishes, somebody ends it."""

import asyncio
from collections.abc import Sequence
from itertools import islice

import structlog

from kvlease.router.dispatched import Dispatched
from kvlease.router.engine import EngineKey
from kvlease.router.errors import EngineMismatch, RegistryUnreachable, TicketNotFound
from kvlease.router.record import Record
from kvlease.router.registry import Registry, RegistryRefused
from kvlease.router.ticket import TicketKey
from kvlease.router.tickets import Tickets
from kvlease.v1.lease_pb2 import STOP_REASON_UNSPECIFIED, PrefillReport, StopReason
from kvlease.v1.registry_pb2 import (
    TURN_OUTCOME_CANCELLED,
    TURN_OUTCOME_COMPLETED,
    TURN_OUTCOME_PREFILL_FAILED,
    TurnOutcome,
)

LATER = (0.5, 2.0, 5.0)
"""Seconds between the times at which an end is told that the registry did not hear: leases live by it."""
LATER_WAIT = 1.0  # seconds

log = structlog.get_logger()


class Turns:
    """Serves tickets of any router that signs with the same key.

    A ticket that cannot be proved is TicketForged; one that is over, too old or another tenant's is TicketNotFound.
    What ends a turn gives the registry *wait* seconds to hear of it.
    """

    def __init__(
        self,
        *,
        tickets: Tickets,
        dispatched: Dispatched,
        key: TicketKey,
        registry: Registry,
        later: Sequence[float] = LATER,
    ) -> None:
        """Tells ends that the registry did not hear after each of these pauses again."""
        self._tickets = tickets
        self._dispatched = dispatched
        self._key = key
        self._registry = registry
        self._later = later
        self._telling: set[asyncio.Task[None]] = set()

    async def resolve(self, ticket: str, engine: EngineKey, wait: float) -> Record:
        """Returns the turn to an engine that its ticket names, once prefill is settled or *wait* seconds are over.

        Raises EngineMismatch for any other engine.
        """
        record = self._of_engine(ticket, engine)
        if record.over:
            raise TicketNotFound(record.terms.ticket_id)
        self._dispatched.arrived(engine, record.terms.ticket_id)
        await record.prefill_settled(wait)
        return record

    def publish(self, ticket: str, engine: EngineKey, lease_id: str, report: PrefillReport | None) -> None:
        """Notes what prefill granted and how it came by it. Raises EngineMismatch unless prefill calls."""
        record = self._of_engine(ticket, engine)
        if engine != record.terms.prefill:
            raise EngineMismatch(*engine)
        record.publish(lease_id, report)
        self._dispatched.prefill_ended(record.terms)

    async def complete(
        self, ticket: str, tenant: str, stop_reason: StopReason.ValueType, wait: float
    ) -> PrefillReport | None:
        """Ends an answered turn; returns what is known of its prefill."""
        record = self._of_tenant(ticket, tenant)
        record.complete()
        self._dispatched.ended(record.terms)
        reported = await self._tell(record, TURN_OUTCOME_COMPLETED, stop_reason, wait)
        if record.report is None:
            record.note(reported)
        return record.report

    async def cancel(self, ticket: str, tenant: str, wait: float) -> None:
        """Ends a turn that will not be answered; one that was answered stays so."""
        record = self._of_tenant(ticket, tenant)
        if record.cancel():
            self._dispatched.ended(record.terms)
            await self._tell(record, TURN_OUTCOME_CANCELLED, STOP_REASON_UNSPECIFIED, wait)

    async def cancel_prefill(self, ticket: str, tenant: str, wait: float) -> None:
        """Ends a turn's prefill leg; decode goes on alone.

        Raises RegistryUnreachable when the registry was not told, at which decode waits: to be called again.
        """
        record = self._of_tenant(ticket, tenant)
        if not record.over:
            record.fail_prefill()
            self._dispatched.prefill_ended(record.terms)
            try:
                await self._registry.end_turn(record.terms, TURN_OUTCOME_PREFILL_FAILED, STOP_REASON_UNSPECIFIED, wait)
            except RegistryRefused as error:
                _not_told(record, error.cause)

    def known(self, ticket_id: str, tenant: str) -> Record:
        """Returns what is known of one of the tenant's turns, by the ticket's name."""
        record = self._tickets.by_id(ticket_id)
        if record.terms.tenant != tenant:
            raise TicketNotFound(ticket_id)
        return record

    def recent(self, tenant: str, conversation_id: str, limit: int) -> list[Record]:
        """Returns the tenant's turns, newest first; of one conversation if its id is given."""
        return list(islice(self._tickets.newest(tenant, conversation_id), limit))

    def _of_engine(self, ticket: str, engine: EngineKey) -> Record:
        terms = self._key.open(ticket)
        if engine not in (terms.prefill, terms.decode):
            raise EngineMismatch(*engine)
        return self._tickets.of(terms)

    def _of_tenant(self, ticket: str, tenant: str) -> Record:
        terms = self._key.open(ticket)
        if terms.tenant != tenant:
            raise TicketNotFound(terms.ticket_id)
        return self._tickets.of(terms)

    async def _tell(
        self, record: Record, outcome: TurnOutcome.ValueType, stop_reason: StopReason.ValueType, wait: float
    ) -> PrefillReport | None:
        """Tells the registry. Without it the turn ends all the same: its leases lapse by themselves."""
        try:
            return await self._registry.end_turn(record.terms, outcome, stop_reason, wait)
        except RegistryRefused as error:
            _not_told(record, error.cause)
        except RegistryUnreachable as error:
            _not_told(record, error.cause)
            telling = asyncio.create_task(self._tell_later(record, outcome, stop_reason))
            self._telling.add(telling)
            telling.add_done_callback(self._telling.discard)
        return None

    async def _tell_later(
        self, record: Record, outcome: TurnOutcome.ValueType, stop_reason: StopReason.ValueType
    ) -> None:
        for pause in self._later:
            await asyncio.sleep(pause)
            try:
                await self._registry.end_turn(record.terms, outcome, stop_reason, LATER_WAIT)
            except RegistryUnreachable:
                continue
            except RegistryRefused as error:
                _not_told(record, error.cause)
            return


def _not_told(record: Record, cause: str) -> None:
    log.info("turn's end not told", ticket_id=record.terms.ticket_id, cause=cause)
