"""Asyncio clients in the words of `kvlease.v1`, for connectors and services: protos in, protos out.

Applications use `kvlease.client.aio` or `kvlease.client.sync`. Here nothing is converted and nothing is
retried: who calls knows what a late answer is worth.

Every method takes *timeout* (seconds, for the whole call; where the request names a wait, the default adds it) and
*tenant* (instead of the client's), and raises `kvlease.client.errors`. A cancelled task cancels its call.
"""

from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Protocol

from google.protobuf.duration_pb2 import Duration

from kvlease.client.caller import AsyncCaller
from kvlease.client.channel import WATCH_TIMEOUT
from kvlease.client.convert import seconds
from kvlease.client.security import PLAIN, Security
from kvlease.v1 import registry_pb2 as registry
from kvlease.v1 import router_pb2 as router
from kvlease.v1.registry_pb2_grpc import RegistryServiceStub
from kvlease.v1.router_pb2_grpc import RoutingServiceStub

if TYPE_CHECKING:  # names that only the stubs' types have
    from kvlease.v1.registry_pb2_grpc import RegistryServiceAsyncStub  # noqa: F401 - in the quotes below
    from kvlease.v1.router_pb2_grpc import RoutingServiceAsyncStub  # noqa: F401

TIMEOUT = 2.0


class Waiting(Protocol):
    """A request that may make the server wait."""

    @property
    def wait(self) -> Duration: ...


def _patience(request: Waiting) -> float:
    """Seconds to give a call whose server may wait."""
    return seconds(request.wait) + TIMEOUT


class EngineRegistryClient(AsyncCaller["RegistryServiceAsyncStub"]):
    """Calls a registry. May be made anywhere, also before a fork; belongs to the event loop of its first call."""

    def __init__(self, address: str, *, tenant: str = "", security: Security = PLAIN) -> None:
        """Keeps *address* (`host:port`, or see `channel.target`) and *tenant*; opens nothing."""
        super().__init__(address, RegistryServiceStub, server="registry", tenant=tenant, security=security)

    async def open_session(
        self, request: registry.OpenSessionRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.OpenSessionResponse:
        """Calls `RegistryService.OpenSession`."""
        return await self._call(self._stub.OpenSession, request, timeout, tenant)

    async def heartbeat(
        self, request: registry.HeartbeatRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.HeartbeatResponse:
        """Calls `RegistryService.Heartbeat`."""
        return await self._call(self._stub.Heartbeat, request, timeout, tenant)

    async def close_session(
        self, request: registry.CloseSessionRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.CloseSessionResponse:
        """Calls `RegistryService.CloseSession`."""
        return await self._call(self._stub.CloseSession, request, timeout, tenant)

    async def announce_leases(
        self, request: registry.AnnounceLeasesRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.AnnounceLeasesResponse:
        """Calls `RegistryService.AnnounceLeases`."""
        return await self._call(self._stub.AnnounceLeases, request, timeout, tenant)

    async def grant_lease(
        self, request: registry.GrantLeaseRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.GrantLeaseResponse:
        """Calls `RegistryService.GrantLease`."""
        return await self._call(self._stub.GrantLease, request, timeout, tenant)

    async def renew_leases(
        self, request: registry.RenewLeasesRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.RenewLeasesResponse:
        """Calls `RegistryService.RenewLeases`."""
        return await self._call(self._stub.RenewLeases, request, timeout, tenant)

    async def release_lease(
        self, request: registry.ReleaseLeaseRequest, *, timeout: float | None = None, tenant: str = ""
    ) -> registry.ReleaseLeaseResponse:
        """Calls `RegistryService.ReleaseLease`."""
        return await self._call(
            self._stub.ReleaseLease, request, _patience(request) if timeout is None else timeout, tenant
        )

    async def release_all(
        self, request: registry.ReleaseAllRequest, *, timeout: float | None = None, tenant: str = ""
    ) -> registry.ReleaseAllResponse:
        """Calls `RegistryService.ReleaseAll`."""
        return await self._call(
            self._stub.ReleaseAll, request, _patience(request) if timeout is None else timeout, tenant
        )

    async def end_conversation(
        self, request: registry.EndConversationRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.EndConversationResponse:
        """Calls `RegistryService.EndConversation`."""
        return await self._call(self._stub.EndConversation, request, timeout, tenant)

    async def claim_lease(
        self, request: registry.ClaimLeaseRequest, *, timeout: float | None = None, tenant: str = ""
    ) -> registry.ClaimLeaseResponse:
        """Calls `RegistryService.ClaimLease`."""
        return await self._call(
            self._stub.ClaimLease, request, _patience(request) if timeout is None else timeout, tenant
        )

    async def renew_claim(
        self, request: registry.RenewClaimRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.RenewClaimResponse:
        """Calls `RegistryService.RenewClaim`."""
        return await self._call(self._stub.RenewClaim, request, timeout, tenant)

    async def finish_claim(
        self, request: registry.FinishClaimRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.FinishClaimResponse:
        """Calls `RegistryService.FinishClaim`."""
        return await self._call(self._stub.FinishClaim, request, timeout, tenant)

    async def end_turn(
        self, request: registry.EndTurnRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.EndTurnResponse:
        """Calls `RegistryService.EndTurn`."""
        return await self._call(self._stub.EndTurn, request, timeout, tenant)

    async def drain_engine(
        self, request: registry.DrainEngineRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.DrainEngineResponse:
        """Calls `RegistryService.DrainEngine`."""
        return await self._call(self._stub.DrainEngine, request, timeout, tenant)

    async def revoke_leases(
        self, request: registry.RevokeLeasesRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.RevokeLeasesResponse:
        """Calls `RegistryService.RevokeLeases`."""
        return await self._call(self._stub.RevokeLeases, request, timeout, tenant)

    async def get_lease(
        self, request: registry.GetLeaseRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.GetLeaseResponse:
        """Calls `RegistryService.GetLease`."""
        return await self._call(self._stub.GetLease, request, timeout, tenant)

    async def locate_conversations(
        self, request: registry.LocateConversationsRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.LocateConversationsResponse:
        """Calls `RegistryService.LocateConversations`."""
        return await self._call(self._stub.LocateConversations, request, timeout, tenant)

    async def list_leases(
        self, request: registry.ListLeasesRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.ListLeasesResponse:
        """Calls `RegistryService.ListLeases`."""
        return await self._call(self._stub.ListLeases, request, timeout, tenant)

    def watch_leases(
        self, request: registry.WatchLeasesRequest, *, timeout: float = WATCH_TIMEOUT, tenant: str = ""
    ) -> AsyncGenerator[registry.WatchLeasesResponse, None]:
        """Calls `RegistryService.WatchLeases`; ends with `DeadlineExceeded` after *timeout*."""
        return self._stream(self._stub.WatchLeases, request, timeout, tenant)

    async def list_engines(
        self, request: registry.ListEnginesRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> registry.ListEnginesResponse:
        """Calls `RegistryService.ListEngines`."""
        return await self._call(self._stub.ListEngines, request, timeout, tenant)


class EngineRouterClient(AsyncCaller["RoutingServiceAsyncStub"]):
    """Calls a router. May be made anywhere, also before a fork; belongs to the event loop of its first call."""

    def __init__(self, address: str, *, tenant: str = "", security: Security = PLAIN) -> None:
        """Keeps *address* (`host:port`, or see `channel.target`) and *tenant*; opens nothing."""
        super().__init__(address, RoutingServiceStub, server="router", tenant=tenant, security=security)

    async def route(
        self, request: router.RouteRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> router.RouteResponse:
        """Calls `RoutingService.Route`."""
        return await self._call(self._stub.Route, request, timeout, tenant)

    async def resolve_ticket(
        self, request: router.ResolveTicketRequest, *, timeout: float | None = None, tenant: str = ""
    ) -> router.ResolveTicketResponse:
        """Calls `RoutingService.ResolveTicket`."""
        return await self._call(
            self._stub.ResolveTicket, request, _patience(request) if timeout is None else timeout, tenant
        )

    async def publish_prefill(
        self, request: router.PublishPrefillRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> router.PublishPrefillResponse:
        """Calls `RoutingService.PublishPrefill`."""
        return await self._call(self._stub.PublishPrefill, request, timeout, tenant)

    async def complete_ticket(
        self, request: router.CompleteTicketRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> router.CompleteTicketResponse:
        """Calls `RoutingService.CompleteTicket`."""
        return await self._call(self._stub.CompleteTicket, request, timeout, tenant)

    async def cancel_ticket(
        self, request: router.CancelTicketRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> router.CancelTicketResponse:
        """Calls `RoutingService.CancelTicket`."""
        return await self._call(self._stub.CancelTicket, request, timeout, tenant)

    async def get_ticket(
        self, request: router.GetTicketRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> router.GetTicketResponse:
        """Calls `RoutingService.GetTicket`."""
        return await self._call(self._stub.GetTicket, request, timeout, tenant)

    async def list_tickets(
        self, request: router.ListTicketsRequest, *, timeout: float = TIMEOUT, tenant: str = ""
    ) -> router.ListTicketsResponse:
        """Calls `RoutingService.ListTickets`."""
        return await self._call(self._stub.ListTickets, request, timeout, tenant)
