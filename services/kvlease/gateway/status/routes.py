"""The page, and what it draws."""

from http import HTTPStatus
from importlib import resources
from typing import Protocol

import msgspec

from kvlease.client.errors import KvleaseError
from kvlease.gateway.engines import Engines
from kvlease.gateway.http.connection import Handler
from kvlease.gateway.http.message import JSON, Headers, Request
from kvlease.gateway.http.reply import Reply
from kvlease.gateway.metrics import Metrics
from kvlease.gateway.status import shown
from kvlease.gateway.status.history import History
from kvlease.gateway.tenancy import Tenancy
from kvlease.v1 import lease_pb2, registry_pb2

_LEASES = 200
"""Shown at most."""
_TIMEOUT = 1.0
_FILES = {
    "/ui": ("index.html", b"text/html; charset=utf-8"),
    "/ui/status.css": ("status.css", b"text/css; charset=utf-8"),
    "/ui/status.js": ("status.js", b"text/javascript; charset=utf-8"),
}
_SAFE: Headers = [
    (b"content-security-policy", b"default-src 'self'; img-src data:; frame-ancestors 'none'; form-action 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-cache"),
]


class ListsLeases(Protocol):
    """The registry's part."""

    async def list_leases(
        self,
        request: registry_pb2.ListLeasesRequest,
        *,
        timeout: float,  # noqa: ASYNC109 - the client's
        tenant: str,
    ) -> registry_pb2.ListLeasesResponse: ...


class StatusPage:
    """Answers under `/ui`. The page itself is open to all, what it shows to whom the gateway serves."""

    def __init__(self, engines: Engines, registry: ListsLeases, metrics: Metrics, tenancy: Tenancy) -> None:
        self._engines = engines
        self._registry = registry
        self._metrics = metrics
        self._tenancy = tenancy
        self._history = History(metrics.totals())
        folder = resources.files("kvlease.gateway.status") / "page"
        self._files = {path: (kind, (folder / name).read_bytes()) for path, (name, kind) in _FILES.items()}
        self.routes: dict[str, dict[str, Handler]] = {path: {"GET": self._file} for path in _FILES}
        self.routes["/ui/status.json"] = {"GET": self._status}

    async def look(self) -> None:
        """Adds to the history; to be called every `history.EVERY` seconds."""
        self._history.look(self._metrics.totals())

    async def _file(self, request: Request, reply: Reply) -> None:
        kind, content = self._files[request.path]
        reply.send(HTTPStatus.OK, [(b"content-type", kind), *_SAFE], content)

    async def _status(self, request: Request, reply: Reply) -> None:
        listed = await self._leases(self._tenancy(request))
        status = shown.Status(
            registry_reached=self._engines.reachable and listed is not None,
            engines=[shown.engine(each) for each in self._engines.listed],
            leases=[shown.lease(each) for each in listed.leases] if listed else [],
            more_leases=bool(listed and listed.next_page_token),
            history=shown.history(self._history.points),
            misses=self._metrics.misses(),
        )
        reply.send(HTTPStatus.OK, [JSON, (b"cache-control", b"no-store")], msgspec.json.encode(status))

    async def _leases(self, tenant: str) -> registry_pb2.ListLeasesResponse | None:
        """Returns a tenant's leases that later turns can use; None while the registry does not answer."""
        request = registry_pb2.ListLeasesRequest(
            filter=registry_pb2.LeaseFilter(kind=lease_pb2.LEASE_KIND_DECODE),
            view=registry_pb2.LEASE_VIEW_BASIC,
            page_size=_LEASES,
        )
        try:
            return await self._registry.list_leases(request, timeout=_TIMEOUT, tenant=tenant)
        except KvleaseError:
            return None
