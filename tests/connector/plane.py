"""A control plane for one engine at a time: small, over real gRPC, and faulty when told to be."""

import threading
import uuid
from collections import Counter
from typing import Any

from kvlease.client import errors
from kvlease.client.requests import duration
from kvlease.client.testing import FakeServer
from kvlease.v1 import lease_pb2, registry_pb2, router_pb2
from kvlease.v1.lease_pb2 import Lease
from kvlease.v1.registry_pb2 import AnnounceStatus, Order, ReleaseStatus, SessionCredential

HEARTBEAT, HOLD, CLAIM = 0.2, 12.0, 5.0
PENDING = 0.02  # seconds that a claim waits here for prefill, whatever it asked for


class Registry(FakeServer):
    """Sessions, leases and claims of whoever opened a session last."""

    def __init__(self) -> None:
        names = [name[1:] for name in dir(self) if name[1:2].isupper()]
        super().__init__("kvlease.v1.RegistryService", registry_pb2, {name: self._losing(name) for name in names})
        self.claim_ttl = CLAIM
        self.boot = "boot-1"
        self.leases: dict[str, Lease] = {}
        self.announced: list[Lease] = []
        self.over: set[str] = set()  # leases that an announcement does not bring back
        self.orders: dict[str, Order] = {}
        self.claimable: dict[str, Lease] = {}  # by conversation id, or ticket id of a prefill
        self._lost: Counter[str] = Counter()
        self._loss: dict[str, errors.KvleaseError] = {}
        self._refusals: dict[str, errors.KvleaseError | None] = {}
        self.reading = False  # whether leases are claimed when they are released
        self._sessions = 0
        self._number = 0
        self._published = threading.Condition(self._lock)

    # -- what the test does ------------------------------------------------------------------------------------------

    def lose_answers(self, method: str, count: int = 1, by: errors.KvleaseError | None = None) -> None:
        """Carries out the next calls of *method*, and loses their answers; the caller hears *by*."""
        self._lost[method] += count
        self._loss[method] = by or errors.Unavailable("the answer was lost")

    def refuse(self, method: str, error: errors.KvleaseError | None) -> None:
        """Answers *method* with *error* from now on, or no longer."""
        self._refusals[method] = error

    def forget(self, *, boot: str) -> None:
        """Starts again, empty."""
        with self._lock:
            self.boot = boot
            self.leases.clear()
            self.orders.clear()
            self._sessions += 1

    def publish(self, name: str, lease: Lease) -> None:
        """Lets *lease* be claimed as the branch of a conversation, or as prefill's of a ticket."""
        with self._published:
            self.claimable[name] = lease
            self._published.notify_all()

    def order_free(self, lease_id: str, reason: int = lease_pb2.RETIRE_REASON_EXPIRED) -> None:
        with self._lock:
            self.orders[lease_id] = Order(lease_id=lease_id, free=registry_pb2.FreeOrder(reason=reason))  # type: ignore[arg-type]

    def asked(self, method: str) -> list[Any]:
        """Returns the requests of *method* so far."""
        return [call.request for call in self.calls if call.method == method]

    # -- what it serves ----------------------------------------------------------------------------------------------

    def _losing(self, name: str) -> Any:
        def serve(request: Any, _: str) -> Any:
            if error := self._refusals.get(name):
                raise error
            answer = getattr(self, f"_{name}")(request)
            if self._lost[name]:
                self._lost[name] -= 1
                raise self._loss[name]
            return answer

        return serve

    def _check(self, credential: SessionCredential) -> None:
        if credential.session_id != f"session-{self._sessions}":
            raise errors.SessionNotFound("open a session again")

    def _OpenSession(self, _: Any) -> registry_pb2.OpenSessionResponse:  # noqa: N802
        self._sessions += 1
        self._number = 0
        return registry_pb2.OpenSessionResponse(
            credential=SessionCredential(session_id=f"session-{self._sessions}", session_secret=uuid.uuid4().hex),
            boot_id=self.boot,
            timing=registry_pb2.Timing(
                heartbeat_interval=duration(HEARTBEAT),
                hold=duration(HOLD),
                claim=duration(CLAIM),
                margin=duration(1.0),
            ),
        )

    def _Heartbeat(self, request: Any) -> registry_pb2.HeartbeatResponse:  # noqa: N802
        self._check(request.credential)
        for lease_id in request.freed_lease_ids:
            self.orders.pop(lease_id, None)
        self._number += 1
        return registry_pb2.HeartbeatResponse(number=self._number, boot_id=self.boot, orders=self.orders.values())

    def _CloseSession(self, request: Any) -> registry_pb2.CloseSessionResponse:  # noqa: N802
        self._check(request.credential)
        self._sessions += 1
        return registry_pb2.CloseSessionResponse()

    def _AnnounceLeases(self, request: Any) -> registry_pb2.AnnounceLeasesResponse:  # noqa: N802
        self._check(request.credential)
        results = []
        for lease in request.leases:
            self.announced.append(lease)
            kept = lease.lease_id not in self.over
            status = AnnounceStatus.ANNOUNCE_STATUS_KEPT if kept else AnnounceStatus.ANNOUNCE_STATUS_OVER
            results.append(registry_pb2.AnnounceResult(lease_id=lease.lease_id, status=status))
        return registry_pb2.AnnounceLeasesResponse(results=results)

    def _GrantLease(self, request: Any) -> registry_pb2.GrantLeaseResponse:  # noqa: N802
        self._check(request.credential)
        self.leases[request.lease_id] = Lease(lease_id=request.lease_id, handle=request.handle)
        return registry_pb2.GrantLeaseResponse(generation=len(self.leases), remaining=duration(60.0))

    def _ReleaseLease(self, request: Any) -> registry_pb2.ReleaseLeaseResponse:  # noqa: N802
        self._check(request.credential)
        if self.reading:
            return registry_pb2.ReleaseLeaseResponse(status=ReleaseStatus.RELEASE_STATUS_CLAIMED)
        self.leases.pop(request.lease_id, None)
        return registry_pb2.ReleaseLeaseResponse(status=ReleaseStatus.RELEASE_STATUS_RELEASED)

    def _ReleaseAll(self, request: Any) -> registry_pb2.ReleaseAllResponse:  # noqa: N802
        self._check(request.credential)
        released = list(self.leases)
        self.leases.clear()
        return registry_pb2.ReleaseAllResponse(released_lease_ids=released)

    def _ClaimLease(self, request: Any) -> registry_pb2.ClaimLeaseResponse:  # noqa: N802
        self._check(request.credential)
        name = request.prefill_ticket_id or request.branch.conversation.conversation_id
        if request.prefill_ticket_id and not self._published.wait_for(lambda: name in self.claimable, PENDING):
            raise errors.PrefillPending("prefill has not published")
        if name not in self.claimable:
            raise errors.NoLease("no lease may be claimed")
        return registry_pb2.ClaimLeaseResponse(ttl=duration(self.claim_ttl), lease=self.claimable[name])

    def _RenewClaim(self, request: Any) -> registry_pb2.RenewClaimResponse:  # noqa: N802
        self._check(request.credential)
        return registry_pb2.RenewClaimResponse(ttl=duration(self.claim_ttl))

    def _FinishClaim(self, request: Any) -> registry_pb2.FinishClaimResponse:  # noqa: N802
        self._check(request.credential)
        return registry_pb2.FinishClaimResponse()

    def _EndTurn(self, _: Any) -> registry_pb2.EndTurnResponse:  # noqa: N802
        return registry_pb2.EndTurnResponse()


class Router(FakeServer):
    """Proves every ticket that says so in its signature."""

    def __init__(self) -> None:
        self.prefill = router_pb2.PREFILL_STATE_PENDING
        super().__init__(
            "kvlease.v1.RoutingService",
            router_pb2,
            {
                "ResolveTicket": self._resolve,
                "PublishPrefill": lambda _request, _tenant: router_pb2.PublishPrefillResponse(),
                "CancelTicket": lambda _request, _tenant: router_pb2.CancelTicketResponse(),
            },
        )

    def asked(self, method: str) -> list[Any]:
        """Returns the requests of *method* so far."""
        return [call.request for call in self.calls if call.method == method]

    def _resolve(self, request: Any, _: str) -> router_pb2.ResolveTicketResponse:
        if request.ticket.endswith(".forged"):
            raise errors.TicketForged("not one of ours")
        return router_pb2.ResolveTicketResponse(prefill_state=self.prefill)
