"""Keeps the directory fresh, and gives up what waits for an engine that is gone."""

from collections.abc import Sequence
from typing import Protocol

import structlog

from kvlease.client.errors import KvleaseError
from kvlease.gateway.directory import Directory
from kvlease.gateway.http.pool import Pool
from kvlease.v1 import registry_pb2

_TIMEOUT = 2.0

log = structlog.get_logger()


class Lists(Protocol):
    """The registry's part."""

    async def list_engines(
        self,
        request: registry_pb2.ListEnginesRequest,
        *,
        timeout: float,  # noqa: ASYNC109 - the client's
    ) -> registry_pb2.ListEnginesResponse: ...


class Engines:
    """Looks at the registry's list."""

    def __init__(self, registry: Lists, directory: Directory, pool: Pool) -> None:
        self._registry = registry
        self._directory = directory
        self._pool = pool
        self.listed: Sequence[registry_pb2.EngineStatus] = ()
        """As the registry last told, lost ones included."""
        self.reachable = True
        """Whether it answered the last look."""

    async def look(self) -> None:
        """Takes the list over; while the registry does not answer, the last one stands."""
        request = registry_pb2.ListEnginesRequest(include_lost=True)
        try:
            response = await self._registry.list_engines(request, timeout=_TIMEOUT)
        except KvleaseError as error:
            self._changed(reachable=False, error=str(error))
            return
        self._changed(reachable=True)
        self.listed = response.engines
        for gone in self._directory.update(response.engines):
            self._pool.forsake(gone)

    def _changed(self, *, reachable: bool, error: str = "") -> None:
        if reachable != self.reachable:
            self.reachable = reachable
            if reachable:
                log.info("registry reached again")
            else:
                log.warning("registry not reached", error=error)
