"""The engine's calls to the control plane, over a network that can be made to fail."""

import asyncio
from typing import Any

from kvlease.client import errors
from kvlease.client.engine import EngineRegistryClient, EngineRouterClient
from kvlease.client.security import Security
from kvlease.sim.faults import Switches
from kvlease.v1.registry_pb2 import HeartbeatRequest


class _Faulty:
    """Comes before a client among the bases of a class: what happens to its calls on their way."""

    def __init__(self, address: str, switches: Switches, security: Security) -> None:
        super().__init__(address, security=security)  # type: ignore[call-arg]
        self._switches = switches

    async def _call(self, rpc: Any, request: Any, timeout: float, tenant: str) -> Any:  # noqa: ASYNC109 - the base's
        call = super()._call  # type: ignore[misc]
        if self._switches.calm:
            return await call(rpc, request, timeout, tenant)
        try:
            async with asyncio.timeout(timeout):
                await self._sent(request)
        except TimeoutError as error:
            raise errors.DeadlineExceeded("no answer of the control plane: it is cut off") from error
        answer = await call(rpc, request, timeout, tenant)
        if self._switches.take("lose_answers"):
            raise errors.Unavailable("the answer was lost")
        await self._switches.thawed()
        return answer

    async def _sent(self, request: Any) -> None:
        """Returns once the call may go out."""
        await asyncio.sleep(self._switches.control_delay)
        if isinstance(request, HeartbeatRequest):
            await self._switches.over("hold_heartbeats")
        await self._switches.over("control_cut")
        await self._switches.thawed()


class RegistryClient(_Faulty, EngineRegistryClient):
    """Calls a registry over such a network."""


class RouterClient(_Faulty, EngineRouterClient):
    """Calls a router over such a network."""
