"""A registry without engines: leases are granted by the test, and live by its clock."""

import queue
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import grpc
from google.protobuf.message import Message

from kvlease.client import types, words
from kvlease.client.convert import seconds
from kvlease.client.errors import EngineNotFound, LeaseNotFound, Malformed
from kvlease.client.requests import duration, engine_ref
from kvlease.client.testing.server import DEFAULT_TENANT, FakeServer, Unary
from kvlease.v1 import lease_pb2, registry_pb2

Clock = Callable[[], float]
ENGINE = types.EngineRef("engine", "1")
PAGE = 1000


@dataclass(slots=True)
class _Held:
    """A lease, and its instants on the registry's clock."""

    lease: lease_pb2.Lease
    granted: float
    touched: float
    until: float

    def shown(self, now: float) -> lease_pb2.Lease:
        """Copies it, with its durations as of *now*."""
        lease = lease_pb2.Lease()
        lease.CopyFrom(self.lease)
        lease.remaining.CopyFrom(duration(max(0.0, self.until - now)))
        lease.age.CopyFrom(duration(now - self.granted))
        lease.idle.CopyFrom(duration(now - self.touched))
        return lease


@dataclass(slots=True)
class _Watch:
    """What one reader wants to know; None ends it."""

    filter: registry_pb2.LeaseFilter
    tenant: str
    events: queue.SimpleQueue[registry_pb2.WatchLeasesResponse | None] = field(default_factory=queue.SimpleQueue)

    def wants(self, lease: lease_pb2.Lease) -> bool:
        """Tells whether all that is given holds."""
        return (
            lease.conversation.tenant == self.tenant
            and self.filter.conversation_id in ("", lease.conversation.conversation_id)
            and self.filter.engine_id in ("", lease.handle.engine.engine_id)
            and self.filter.kind in (0, lease.kind)
            and self.filter.state in (0, lease.state)
        )


class FakeRegistry(FakeServer):
    """Serves what applications and operators call.

    `engines` has what `add_engine` made, by id: a test may change its `healthy` and `draining`, say.
    """

    def __init__(self, *, clock: Clock = time.monotonic, policy_ttl: float = 60.0) -> None:
        """Starts nothing. *policy_ttl*: seconds given to a renewal that names none."""
        unary: dict[str, Unary] = {
            "RenewLeases": self._renew_leases,
            "EndConversation": self._end_conversation,
            "GetLease": self._get_lease,
            "ListLeases": self._list_leases,
            "ListEngines": self._list_engines,
            "DrainEngine": self._drain_engine,
            "RevokeLeases": self._revoke_leases,
        }
        super().__init__("kvlease.v1.RegistryService", registry_pb2, unary, {"WatchLeases": self._watch_leases})
        self.engines: dict[str, registry_pb2.EngineStatus] = {}
        self._clock = clock
        self._policy_ttl = policy_ttl
        self._generations: Counter[tuple[str, str]] = Counter()
        self._leases: dict[str, _Held] = {}
        self._watches: list[_Watch] = []

    def add_engine(
        self,
        engine_id: str,
        *,
        role: types.EngineRole = types.EngineRole.BOTH,
        model: str = "model",
        http_url: str = "",
    ) -> types.EngineRef:
        """Makes an engine known; the same id again is its next incarnation, whose old leases are lost."""
        ref = types.EngineRef(engine_id, uuid.uuid4().hex)
        told = registry_pb2.Engine(
            ref=engine_ref(ref),
            role=words.ENGINE_ROLE.write(role),
            models=[model],
            http_url=http_url or f"http://{engine_id}",
        )
        with self._lock:
            self.engines[engine_id] = registry_pb2.EngineStatus(engine=told, healthy=True)
            self._retire(
                [held for held in self._leases.values() if held.lease.handle.engine.engine_id == engine_id],
                lease_pb2.RETIRE_REASON_OWNER_LOST,
            )
        return ref

    def grant(
        self,
        conversation_id: str,
        *,
        engine: types.EngineRef = ENGINE,
        tokens: int = 1024,
        ttl: float = 60.0,
        tenant: str = DEFAULT_TENANT,
    ) -> str:
        """Leases *tokens* of a conversation for *ttl* seconds, in place of what it had; gives the lease's id."""
        now = self._clock()
        with self._lock:
            self._retire(self._of(conversation_id, tenant), lease_pb2.RETIRE_REASON_SUPERSEDED)
            self._generations[tenant, conversation_id] += 1
            lease = lease_pb2.Lease(
                lease_id=uuid.uuid4().hex,
                kind=lease_pb2.LEASE_KIND_DECODE,
                state=lease_pb2.LEASE_STATE_LIVE,
                conversation=lease_pb2.ConversationKey(tenant=tenant, conversation_id=conversation_id),
                generation=self._generations[tenant, conversation_id],
                handle=lease_pb2.Handle(engine=engine_ref(engine), token_count=tokens, block_count=-(-tokens // 16)),
            )
            held = self._leases[lease.lease_id] = _Held(lease, granted=now, touched=now, until=now + ttl)
            self._tell(registry_pb2.LEASE_EVENT_GRANTED, held)
        return lease.lease_id

    def leases(self, conversation_id: str, *, tenant: str = DEFAULT_TENANT) -> list[lease_pb2.Lease]:
        """Shows the live leases of a conversation."""
        with self._lock:
            return [held.shown(self._clock()) for held in self._of(conversation_id, tenant)]

    def _of(self, conversation_id: str, tenant: str) -> list[_Held]:
        """Finds the live leases of a tenant, or of one of its conversations; those that are over go first."""
        now = self._clock()
        self._retire([h for h in self._leases.values() if h.until <= now], lease_pb2.RETIRE_REASON_EXPIRED)
        return [
            held
            for held in self._leases.values()
            if held.lease.conversation.tenant == tenant
            and conversation_id in ("", held.lease.conversation.conversation_id)
        ]

    def _retire(self, leases: list[_Held], reason: lease_pb2.RetireReason.ValueType) -> None:
        for held in leases:
            del self._leases[held.lease.lease_id]
            held.lease.state = lease_pb2.LEASE_STATE_FREED
            held.lease.retire_reason = reason
            self._tell(registry_pb2.LEASE_EVENT_RETIRED, held)
            self._tell(registry_pb2.LEASE_EVENT_FREED, held)

    def _tell(self, event: registry_pb2.LeaseEvent.ValueType, held: _Held) -> None:
        message = registry_pb2.WatchLeasesResponse(event=event, lease=held.shown(self._clock()))
        for watch in self._watches:
            if watch.wants(held.lease):
                watch.events.put(message)

    def _renew_leases(self, request: registry_pb2.RenewLeasesRequest, tenant: str) -> Message:
        return registry_pb2.RenewLeasesResponse(results=[self._renew(r, tenant) for r in request.renewals])

    def _renew(self, renewal: registry_pb2.LeaseRenewal, tenant: str) -> registry_pb2.RenewResult:
        now = self._clock()
        ttl = seconds(renewal.ttl) if renewal.HasField("ttl") else self._policy_ttl
        found = self._of(renewal.conversation_id, tenant)
        if renewal.HasField("lease_id"):
            found = [held for held in found if held.lease.lease_id == renewal.lease_id]
        if not found:
            return registry_pb2.RenewResult(status=registry_pb2.RENEW_STATUS_NOT_FOUND)
        for held in found:
            held.touched = now
            held.until = max(held.until, now + ttl)
            self._tell(registry_pb2.LEASE_EVENT_RENEWED, held)
        return registry_pb2.RenewResult(
            status=registry_pb2.RENEW_STATUS_RENEWED,
            remaining=duration(max(held.until for held in found) - now),
            leases=len(found),
        )

    def _end_conversation(self, request: registry_pb2.EndConversationRequest, tenant: str) -> Message:
        if not request.conversation_id:
            raise Malformed("no conversation id", violations={"conversation_id": "empty"})
        found = self._of(request.conversation_id, tenant)
        self._retire(found, lease_pb2.RETIRE_REASON_ENDED)
        return registry_pb2.EndConversationResponse(leases=len(found))

    def _get_lease(self, request: registry_pb2.GetLeaseRequest, tenant: str) -> Message:
        for held in self._of("", tenant):
            if held.lease.lease_id == request.lease_id:
                return registry_pb2.GetLeaseResponse(lease=held.shown(self._clock()))
        raise LeaseNotFound("no such lease", metadata={"lease_id": request.lease_id})

    def _list_leases(self, request: registry_pb2.ListLeasesRequest, tenant: str) -> Message:
        found = [h for h in self._of("", tenant) if _Watch(request.filter, tenant).wants(h.lease)]
        start = int(request.page_token or 0)
        end = start + (request.page_size or PAGE)
        return registry_pb2.ListLeasesResponse(
            leases=[held.shown(self._clock()) for held in found[start:end]],
            next_page_token=str(end) if end < len(found) else "",
        )

    def _list_engines(self, request: registry_pb2.ListEnginesRequest, _tenant: str) -> Message:
        wanted = [e for e in self.engines.values() if request.model in ("", *e.engine.models)]
        shown = [engine for engine in wanted if engine.healthy or request.include_lost]
        return registry_pb2.ListEnginesResponse(engines=sorted(shown, key=lambda e: e.engine.ref.engine_id))

    def _drain_engine(self, request: registry_pb2.DrainEngineRequest, _tenant: str) -> Message:
        engine = self.engines.get(request.engine_id)
        if engine is None:
            raise EngineNotFound("no such engine", metadata={"engine_id": request.engine_id})
        engine.draining, engine.healthy = not request.undo, request.undo
        return registry_pb2.DrainEngineResponse()

    def _revoke_leases(self, request: registry_pb2.RevokeLeasesRequest, tenant: str) -> Message:
        found = [h for h in self._of("", tenant) if h.lease.handle.engine.engine_id == request.engine_id]
        self._retire(found, lease_pb2.RETIRE_REASON_REVOKED)
        return registry_pb2.RevokeLeasesResponse(leases=len(found))

    def _watch_leases(
        self, request: registry_pb2.WatchLeasesRequest, tenant: str, context: grpc.ServicerContext
    ) -> Iterator[Message]:
        watch = _Watch(request.filter, tenant)
        with self._lock:
            for held in self._of("", tenant):
                if watch.wants(held.lease):
                    existing = held.shown(self._clock())
                    watch.events.put(
                        registry_pb2.WatchLeasesResponse(event=registry_pb2.LEASE_EVENT_EXISTS, lease=existing)
                    )
            watch.events.put(registry_pb2.WatchLeasesResponse(event=registry_pb2.LEASE_EVENT_SYNCED))
            self._watches.append(watch)
        context.add_callback(lambda: watch.events.put(None))
        while (message := watch.events.get()) is not None:
            yield message
        with self._lock:
            self._watches.remove(watch)
