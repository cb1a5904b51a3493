"""What is called: one load for each method, as many workers as there are calls at a time."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.calls.engine import MODEL, Pair
from benchmarks.calls.wire import Call
from kvlease.registry.service import NAME as REGISTRY
from kvlease.router.service import NAME as ROUTER
from kvlease.v1 import registry_pb2, router_pb2
from kvlease.v1.router_pb2_grpc import RoutingServiceStub

CONCURRENCY = 64
BATCH = 1_000
"""Conversations that are claimed and routed, and renewed with one message."""
_BLANK = "#" * 16  # where a number goes

Workers = list[Iterator[Call]]


class Loads:
    """Builds calls for one registry and one router. Numbers are never used twice, so every call is a new one."""

    def __init__(self, registry: Pair, routers: Pair, router: RoutingServiceStub, *, leases: int) -> None:
        """Holds so many leases at the registry, and the first of them at the router's own registry."""
        self._pairs = (registry, routers)
        self._reader, self._owner, self._router = registry.reader, registry.owner, router
        conversations = [f"conversation-{i}" for i in range(leases)]
        self._conversations = conversations[:BATCH]
        self._owner.hold(conversations)
        routers.owner.hold(self._conversations)
        self._count = itertools.count()

    @property
    def methods(self) -> dict[str, Callable[[], Workers]]:
        """The loads by name."""
        return {
            "grant": self.grants,
            "claim + finish": self.claims,
            "renew": lambda: self.renewals(1),
            f"renew x {BATCH}": lambda: self.renewals(BATCH),
            "heartbeat": self.heartbeats,
            "route": self.routes,
            "resolve": self.resolutions,
        }

    def beat(self) -> None:
        """Keeps all sessions alive, and their promises to readers."""
        for pair in self._pairs:
            pair.beat()

    def grants(self) -> Workers:
        return self._numbered(_path(REGISTRY, "GrantLease"), self._owner.grant(_BLANK, f"c-{_BLANK}"))

    def claims(self) -> Workers:
        claim, finish = self._reader.claim(_BLANK, "conversation-0"), self._reader.finish(_BLANK)

        def calls(worker: int) -> Iterator[Call]:
            mine = itertools.cycle(self._conversations[worker::CONCURRENCY])
            while True:
                claim.branch.conversation.conversation_id = next(mine)
                number = b"%016d" % next(self._count)
                yield _path(REGISTRY, "ClaimLease"), claim.SerializeToString().replace(_BLANK.encode(), number)
                yield _path(REGISTRY, "FinishClaim"), finish.SerializeToString().replace(_BLANK.encode(), number)

        return [calls(worker) for worker in range(CONCURRENCY)]

    def renewals(self, many: int) -> Workers:
        """Every call renews so many conversations, as a gateway does for those whose requests are in flight."""
        renewals = [registry_pb2.LeaseRenewal(conversation_id=name) for name in self._conversations[:many]]
        message = registry_pb2.RenewLeasesRequest(renewals=renewals)
        return self._same(_path(REGISTRY, "RenewLeases"), message)

    def heartbeats(self) -> Workers:
        return self._same(_path(REGISTRY, "Heartbeat"), self._owner.heartbeat())

    def routes(self) -> Workers:
        message = router_pb2.RouteRequest(request_id=_BLANK, model=MODEL, prompt_tokens=24_256)

        def calls(worker: int) -> Iterator[Call]:
            mine = itertools.cycle(self._conversations[worker::CONCURRENCY])
            while True:
                message.conversation_id = next(mine)
                number = b"%016d" % next(self._count)
                yield _path(ROUTER, "Route"), message.SerializeToString().replace(_BLANK.encode(), number)

        return [calls(worker) for worker in range(CONCURRENCY)]

    def resolutions(self) -> Workers:
        tickets = [self._ticket(name) for name in self._conversations[:CONCURRENCY]]
        return [itertools.repeat((_path(ROUTER, "ResolveTicket"), ticket.SerializeToString())) for ticket in tickets]

    def _ticket(self, conversation: str) -> router_pb2.ResolveTicketRequest:
        name = f"resolved {next(self._count)}"
        request = router_pb2.RouteRequest(request_id=name, conversation_id=conversation, model=MODEL)
        routed = self._router.Route(request, timeout=10.0)
        return router_pb2.ResolveTicketRequest(ticket=routed.ticket, engine=routed.decode.engine)

    def _numbered(self, path: bytes, message: Any) -> Workers:
        template, blank = message.SerializeToString(), _BLANK.encode()
        return [((path, template.replace(blank, b"%016d" % i)) for i in self._count) for _ in range(CONCURRENCY)]

    def _same(self, path: bytes, message: Any) -> Workers:
        return [itertools.repeat((path, message.SerializeToString())) for _ in range(CONCURRENCY)]


def _path(service: str, method: str) -> bytes:
    return f"/{service}/{method}".encode()
