"""The client for asyncio. `kvlease.client.sync` has the same methods for threads.

async with Client(registry="registry:7440", router="router:7441") as client:
    turn = await client.route("my-model", conversation_id="42")
    ...
    async with client.conversation("42") as conversation:
        async for chunk in conversation.chat(messages, model="my-model"):
            print(chunk.text, end="")
        await run_a_slow_tool()
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from kvlease.client import arguments, convert, requests, types
from kvlease.client.arguments import text
from kvlease.client.caller import Caller
from kvlease.client.channel import DEFAULT_REGISTRY, DEFAULT_ROUTER, WATCH_TIMEOUT
from kvlease.client.completions import Ask
from kvlease.client.conversation import AsyncBlock, Conversation, engines_of
from kvlease.client.engine import EngineRegistryClient, EngineRouterClient
from kvlease.client.errors import DeadlineExceeded, KvleaseError, Unavailable
from kvlease.client.keeper import Keeper
from kvlease.client.renewal import HOLD_TTL, Hold, call_timeout
from kvlease.client.retry import TIMEOUT, Attempts
from kvlease.client.security import PLAIN, Security
from kvlease.v1 import registry_pb2, router_pb2
from kvlease.v1.registry_pb2_grpc import RegistryServiceStub

if TYPE_CHECKING:
    from kvlease.client import chat

log = logging.getLogger(__name__)

RequestT_contra = TypeVar("RequestT_contra", contravariant=True)
ResponseT_co = TypeVar("ResponseT_co", covariant=True)


class Call(Protocol[RequestT_contra, ResponseT_co]):
    """One method of an engine client."""

    def __call__(self, request: RequestT_contra, *, timeout: float) -> Awaitable[ResponseT_co]: ...


class Client:
    """Routes turns and keeps conversations, for one tenant.

    Belongs to the event loop of its first call; nothing is opened before. Every method takes *timeout*, in seconds,
    for all its attempts together, and raises `kvlease.client.errors`.
    """

    def __init__(
        self,
        *,
        registry: str = DEFAULT_REGISTRY,
        router: str = DEFAULT_ROUTER,
        tenant: str = "",
        security: Security = PLAIN,
    ) -> None:
        """Keeps the addresses (`host:port`, or see `channel.target`); opens nothing.

        An empty *tenant* is the servers' default, or the credentials' own.
        """
        self._router = EngineRouterClient(text("router", router), tenant=tenant, security=security)
        self._registry = EngineRegistryClient(text("registry", registry), tenant=tenant, security=security)
        self._keeper = Keeper(
            Caller(registry, RegistryServiceStub, server="registry", tenant=tenant, security=security)
        )
        self._engines: chat.Engines | None = None

    async def close(self) -> None:
        """Lets go of all conversations and closes the channels."""
        self._keeper.close()
        if self._engines is not None:
            await self._engines.close()
        await self._registry.close()
        await self._router.close()

    async def __aenter__(self) -> Self:
        """Gives itself: nothing is to be opened yet."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Closes."""
        await self.close()

    async def route(
        self,
        model: str,
        *,
        conversation_id: str = "",
        prompt_tokens: int = 0,
        exclude: Sequence[types.EngineRef] = (),
        request_id: str = "",
        timeout: float = TIMEOUT,
    ) -> types.Turn:
        """Chooses engines for a turn.

        Args:
            model: As in the OpenAI request.
            conversation_id: Whose KV to reuse and to keep; empty: none.
            prompt_tokens: Rough size of the prompt; 0: unknown.
            exclude: Engines that just failed this request.
            request_id: Unique; the same again gives the same turn while its ticket lives. Made up if empty.
            timeout: Seconds for all attempts together.

        Raises:
            NoEngine: No engine fits.
            ModelNotFound: No engine serves the model.
            IdTaken: *request_id* was used for another conversation or model.
        """
        request = requests.route(model, conversation_id, prompt_tokens, exclude, request_id)
        return convert.turn(await _persist(self._router.route, request, timeout))

    async def resolve(
        self, ticket: str, engine: types.EngineRef, *, wait: float = 0.0, timeout: float = TIMEOUT
    ) -> types.ResolvedTicket:
        """Proves a ticket for *engine*; waits up to *wait* seconds (0 to 60) for prefill's outcome.

        Raises:
            TicketForged: It is not this router's, or was changed.
            TicketNotFound: It is over, or too old.
            IncarnationMismatch: It names another engine.
        """
        request = requests.resolve(ticket, engine, wait)
        answer = await _persist(self._router.resolve_ticket, request, wait + timeout)
        return convert.resolved_ticket(answer)

    async def complete(
        self, ticket: str, *, stop_reason: types.StopReason | None = None, timeout: float = TIMEOUT
    ) -> types.PrefillReport | None:
        """Tells that a turn was answered, and why decode stopped; gives what its prompt cost, where known."""
        request = requests.complete(ticket, stop_reason)
        answer = await _persist(self._router.complete_ticket, request, timeout)
        return convert.report(answer.report) if answer.HasField("report") else None

    async def cancel(self, ticket: str, *, leg: types.Leg | None = None, timeout: float = TIMEOUT) -> None:
        """Tells that a turn will not be answered; with `Leg.PREFILL`, that decode goes on alone."""
        await _persist(self._router.cancel_ticket, requests.cancel(ticket, leg), timeout)

    async def get_ticket(self, ticket_id: str, *, timeout: float = TIMEOUT) -> types.Ticket:
        """Reads what the router knows of a ticket.

        Raises:
            TicketNotFound: It is another router's, too old, or another tenant's.
        """
        request = router_pb2.GetTicketRequest(ticket_id=text("ticket_id", ticket_id))
        return convert.ticket((await _persist(self._router.get_ticket, request, timeout)).ticket)

    async def list_tickets(
        self, *, conversation_id: str = "", limit: int = 100, timeout: float = TIMEOUT
    ) -> list[types.Ticket]:
        """Lists up to *limit* (at most 1,000) recent tickets of this router, newest first."""
        named = arguments.conversation(conversation_id, optional=True)
        request = router_pb2.ListTicketsRequest(conversation_id=named, page_size=arguments.count("limit", limit))
        answer = await _persist(self._router.list_tickets, request, timeout)
        return [convert.ticket(ticket) for ticket in answer.tickets]

    async def renew(
        self,
        *conversation_ids: str,
        lease_ids: Sequence[str] = (),
        ttl: float | None = None,
        timeout: float = TIMEOUT,
    ) -> list[types.Renewal]:
        """Renews all live leases of conversations, and single leases: one result each, conversations first.

        An expired lease is never revived: its result is NOT_FOUND, and no error.

        Args:
            conversation_ids: Whose leases.
            lease_ids: Single leases.
            ttl: Seconds wanted from now on; never shortens. None: the registry's policy.
            timeout: Seconds for all attempts together (for each 1,000 renewals).
        """
        renewals: list[types.Renewal] = []
        for request in requests.renew(conversation_ids, lease_ids, ttl):
            answer = await _persist(self._registry.renew_leases, request, timeout)
            renewals += convert.renewals(request, answer)
        for conversation_id in requests.not_found(conversation_ids, renewals):
            self._keeper.doubt(conversation_id)
        return renewals

    async def end(self, conversation_id: str, *, timeout: float = TIMEOUT) -> int:
        """Ends a conversation: its KV is freed. Gives how many leases were live."""
        request = registry_pb2.EndConversationRequest(conversation_id=arguments.conversation(conversation_id))
        try:
            return (await _persist(self._registry.end_conversation, request, timeout)).leases
        finally:  # an error may come of a call that was carried out
            self._keeper.doubt(conversation_id)

    async def drain(self, engine_id: str, *, undo: bool = False, timeout: float = TIMEOUT) -> None:
        """Takes an engine out of what routers choose from, or puts it back; operators only.

        Raises:
            EngineNotFound: it has no session.
        """
        request = registry_pb2.DrainEngineRequest(engine_id=text("engine_id", engine_id), undo=undo)
        await _persist(self._registry.drain_engine, request, timeout)

    async def revoke(self, engine_id: str, *, timeout: float = TIMEOUT) -> int:
        """Revokes all leases of an engine, before it sleeps or stops; operators only. Gives how many were live.

        Their blocks are free within a heartbeat, those still being read when their claims end.
        """
        request = registry_pb2.RevokeLeasesRequest(engine_id=text("engine_id", engine_id))
        try:
            return (await _persist(self._registry.revoke_leases, request, timeout)).leases
        finally:
            self._keeper.doubt()

    async def get_lease(self, lease_id: str, *, timeout: float = TIMEOUT) -> types.Lease:
        """Reads one lease.

        Raises:
            LeaseNotFound: It is unknown, gone, or another tenant's.
        """
        request = registry_pb2.GetLeaseRequest(lease_id=text("lease_id", lease_id))
        return convert.lease((await _persist(self._registry.get_lease, request, timeout)).lease)

    async def list_leases(
        self,
        *,
        conversation_id: str = "",
        engine_id: str = "",
        kind: types.LeaseKind | None = None,
        state: types.LeaseState | None = None,
        timeout: float = TIMEOUT,
    ) -> list[types.Lease]:
        """Lists leases, oldest first; retired ones only if asked for by *state*. *timeout* is for each 1,000."""
        request = requests.list_leases(conversation_id, engine_id, kind, state)
        leases: list[types.Lease] = []
        while True:
            page = await _persist(self._registry.list_leases, request, timeout)
            leases += map(convert.lease, page.leases)
            if not page.next_page_token:
                return leases
            request.page_token = page.next_page_token

    async def watch_leases(
        self,
        *,
        conversation_id: str = "",
        engine_id: str = "",
        kind: types.LeaseKind | None = None,
        state: types.LeaseState | None = None,
        timeout: float = WATCH_TIMEOUT,
    ) -> AsyncGenerator[types.LeaseEvent, None]:
        """Yields what happens to leases: those that exist, then SYNCED, then changes.

        Is not retried: after an error, watch again, and take what exists then for all there is.

        Raises:
            DeadlineExceeded: It went on for *timeout*.
            WatcherTooSlow: Events came faster than they were read.
        """
        request = requests.watch_leases(conversation_id, engine_id, kind, state)
        limit = arguments.seconds("timeout", timeout)
        async with aclosing(self._registry.watch_leases(request, timeout=limit)) as events:
            async for event in events:
                yield convert.lease_event(event)

    async def list_engines(
        self, *, model: str = "", include_lost: bool = False, timeout: float = TIMEOUT
    ) -> list[types.Engine]:
        """Lists engines by id; with *include_lost*, also those whose heartbeats are overdue."""
        request = registry_pb2.ListEnginesRequest(model=model, include_lost=include_lost)
        answer = await _persist(self._registry.list_engines, request, timeout)
        return [convert.engine(status) for status in answer.engines]

    def conversation(
        self, conversation_id: str, *, ttl: float = HOLD_TTL, end_on_exit: bool = False
    ) -> "AsyncBlock[chat.Answer]":
        """Holds a conversation's leases, renewed from a thread of their own, until the block is left.

        The thread goes on while the event loop is blocked. Answers that were not read to their end are taken back on
        the way out.

        Args:
            conversation_id: Whose leases.
            ttl: Seconds asked for with every renewal: how long they stay should this program die.
            end_on_exit: End the conversation on the way out (a failure is only logged: the leases expire by
                themselves). Otherwise its leases live on for what remains.

        Raises:
            KvleaseError: The first renewal was refused. A registry that is down or slow raises nothing: the
                conversation counts as not held until it answers.
        """
        return AsyncBlock(self._hold(conversation_id, ttl, end_on_exit=end_on_exit))

    @asynccontextmanager
    async def _hold(
        self, conversation_id: str, ttl: float, *, end_on_exit: bool
    ) -> AsyncGenerator["Conversation[chat.Answer]", None]:
        hold = Hold(conversation_id, ttl, due=self._keeper.clock())
        self._keeper.add(hold, *await self._first_renewal(hold))
        conversation = Conversation(hold, self._keeper, self._serve)
        try:
            yield conversation
        finally:
            try:
                await asyncio.gather(*(answer.aclose() for answer in conversation.answers))
                if self._engines is not None:
                    await self._engines.forsake(conversation_id)
                if end_on_exit:
                    await self._end_quietly(conversation_id)
            finally:
                self._keeper.remove(hold)

    def _serve(self, ask: Ask) -> "chat.Answer":
        self._engines = self._engines or engines_of(self)
        return self._engines.serve(ask)

    async def _first_renewal(self, hold: Hold) -> tuple[types.Renewal | None, float]:
        """Renews for the first time; gives the result, if there was any, and when it was asked for."""
        sent_at = self._keeper.clock()
        (request,) = requests.renew_holds([hold])
        try:
            answer = await self._registry.renew_leases(request, timeout=call_timeout([hold]))
            return convert.renewals(request, answer)[0], sent_at
        except (Unavailable, DeadlineExceeded):
            return None, sent_at  # the keeper goes on asking

    async def _end_quietly(self, conversation_id: str) -> None:
        try:
            await self.end(conversation_id)
        except KvleaseError as error:
            log.warning("conversation %r was not ended: %s", conversation_id, error)


async def _persist(call: Call[RequestT_contra, ResponseT_co], request: RequestT_contra, timeout: float) -> ResponseT_co:
    """Calls until there is an answer, a refusal, or no time left."""
    attempts = Attempts(timeout)
    while True:
        try:
            return await call(request, timeout=attempts.left())
        except Unavailable as error:
            pause = attempts.pause(error)
            if pause is None:
                raise
        await asyncio.sleep(pause)
