"""Looks at a deployment. Whatever fails becomes a part of the survey; nothing here raises but for faults of ours."""

import asyncio
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import urlsplit

import httpx2

from kvlease.cli import web
from kvlease.cli.command import is_http
from kvlease.cli.diagnosis.survey import Fault, Pace, Service, SideChannel, Survey
from kvlease.cli.diagnosis.trial import Trial
from kvlease.cli.knocking import listens
from kvlease.client.engine import EngineRegistryClient
from kvlease.client.errors import KvleaseError, PermissionDenied, Unauthenticated, Unavailable, Unimplemented
from kvlease.client.sync import Client
from kvlease.client.types import Engine
from kvlease.v1 import nixl_pb2, registry_pb2

TICKETS = 1000
FORMAT = "nixl/1"
_WORKERS = 16
_REFUSALS = (401, 403)
_LOOK_AGAIN = 1.0  # seconds between two looks at a clock

T = TypeVar("T")
FoundT = TypeVar("FoundT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where the services are, and how long each call may take, in seconds."""

    registry: str
    router: str
    gateway: str
    timeout: float


class Surveyor:
    """Makes one survey. *advance* is called after each of its `STEPS` steps."""

    STEPS = 7

    def __init__(self, places: Places, client: Client, registry: EngineRegistryClient, http: httpx2.Client) -> None:
        self._places = places
        self._client = client
        self._registry = registry
        self._http = http

    def survey(self, *, try_turns: bool, advance: Callable[[], None]) -> Survey:
        """Looks at everything; holds a conversation with each model if it may."""
        places, client, timeout = self._places, self._client, self._places.timeout
        engines, registry = self._tried(
            "registry", places.registry, lambda: client.list_engines(include_lost=True, timeout=timeout)
        )
        advance()
        models, gateway = self._models()
        advance()
        served = sorted({model for engine in engines if engine.healthy for model in engine.models})
        routes, may_route = self._routes(served)
        advance()
        http = _together(self._page, [engine for engine in engines if engine.healthy])
        advance()
        trial = Trial(self._http, client, places.gateway, timeout)
        probes = [trial.hold(model) for model in served] if try_turns and not gateway.error else []
        advance()
        pace, side_channels = self._pace(), self._side_channels()
        trial.end()
        advance()
        tickets, router = self._tried(
            "router", places.router, lambda: client.list_tickets(limit=TICKETS, timeout=timeout)
        )
        advance()
        return Survey(
            services=(registry, router, gateway),
            engines=tuple(engines),
            models=models,
            http=http,
            side_channels=side_channels,
            routes=routes if not router.error else {},
            may_route=may_route,
            tickets=tuple(tickets),
            pace=pace,
            probes=tuple(probes),
        )

    def _models(self) -> tuple[frozenset[str] | None, Service]:
        url = self._places.gateway
        try:
            answer = self._http.get(f"{url}/v1/models")
            answer.raise_for_status()
            return frozenset(model["id"] for model in answer.json()["data"]), Service("gateway", url)
        except (httpx2.HTTPError, ValueError, KeyError) as error:
            return None, Service("gateway", url, web.worded(error), self._fault(error, _host_and_port(url)))

    def _tried(self, name: str, address: str, call: Callable[[], list[T]]) -> tuple[list[T], Service]:
        try:
            return call(), Service(name, address)
        except KvleaseError as error:
            return [], Service(name, address, web.worded(error), self._fault(error, address))

    def _fault(self, error: Exception, address: str) -> Fault:
        if isinstance(error, Unauthenticated | PermissionDenied) or _status(error) in _REFUSALS:
            return Fault.REFUSED
        if isinstance(error, Unimplemented):
            return Fault.OTHER
        if is_http(error):
            return Fault.HTTP
        broken = type(error) is Unavailable or isinstance(error, httpx2.NetworkError | httpx2.ProtocolError)
        return Fault.HANDSHAKE if broken and listens(address, self._places.timeout) else Fault.SILENT

    def _routes(self, models: Sequence[str]) -> tuple[dict[str, str], bool]:
        """Gives what went wrong, by model, and whether it may be asked at all."""
        try:
            return {model: self._route(model) for model in models}, True
        except PermissionDenied:
            return {}, False

    def _route(self, model: str) -> str:
        try:
            turn = self._client.route(model, timeout=self._places.timeout)
            self._client.cancel(turn.ticket, timeout=self._places.timeout)
        except PermissionDenied:
            raise
        except KvleaseError as error:
            return web.worded(error)
        return ""

    def _page(self, engine: Engine) -> tuple[str, str]:
        try:
            self._http.get(f"{engine.http_url}/health").raise_for_status()
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:  # a ValueError: of a host that is no name
            return engine.ref.engine_id, web.worded(error)
        return engine.ref.engine_id, ""

    def _pace(self) -> Pace | None:
        """Sees how fast a lease grows older."""
        try:
            lease = next(iter(self._client.list_leases(timeout=self._places.timeout)), None)
            if lease is None:
                return None
            began, first, one = self._age(lease.lease_id)
            time.sleep(_LOOK_AGAIN)
            ended, last, other = self._age(lease.lease_id)
        except KvleaseError:
            return None
        return Pace(theirs=last - first, ours=ended - began, doubt=one + other)

    def _age(self, lease_id: str) -> tuple[float, float, float]:
        """Gives when a lease's age was asked for, the age, and how long the call took; all in seconds."""
        began = time.monotonic()
        age = self._client.get_lease(lease_id, timeout=self._places.timeout).age
        return began, age, time.monotonic() - began

    def _side_channels(self) -> Mapping[str, SideChannel]:
        """Knocks at the side channels that the tenant's leases name."""
        request = registry_pb2.ListLeasesRequest(view=registry_pb2.LEASE_VIEW_FULL, page_size=100)
        try:
            page = asyncio.run(self._listed(request))
        except KvleaseError:
            return {}
        found: dict[str, tuple[str, int]] = {}
        for lease in page.leases:
            if lease.handle.body_format == FORMAT:
                body = nixl_pb2.NixlBody.FromString(lease.handle.body)
                found[lease.handle.engine.engine_id] = (body.host, body.port)
        return _together(self._knock, list(found.items()))

    async def _listed(self, request: registry_pb2.ListLeasesRequest) -> registry_pb2.ListLeasesResponse:
        try:
            return await self._registry.list_leases(request, timeout=self._places.timeout)
        finally:
            await self._registry.close()

    def _knock(self, item: tuple[str, tuple[str, int]]) -> tuple[str, SideChannel]:
        engine_id, (host, port) = item
        try:
            socket.create_connection((host, port), timeout=self._places.timeout).close()
        except (OSError, ValueError, OverflowError) as error:  # the last two: of what is no host, and no port
            return engine_id, SideChannel(host, port, web.worded(error))
        return engine_id, SideChannel(host, port)


def _together(look: Callable[[T], tuple[str, FoundT]], items: Sequence[T]) -> dict[str, FoundT]:
    with ThreadPoolExecutor(_WORKERS) as pool:
        return dict(pool.map(look, items))


def _status(error: Exception) -> int:
    return error.response.status_code if isinstance(error, httpx2.HTTPStatusError) else 0


def _host_and_port(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"
