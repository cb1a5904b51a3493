"""Where a turn is sent: as the router says, or without it to a decode engine that is known."""

from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import structlog

from kvlease.client.breaker import Breaker
from kvlease.client.errors import (
    InvalidArgument,
    KvleaseError,
    ModelNotFound,
    NoEngine,
    RegistryUnreachable,
    ResourceExhausted,
)
from kvlease.gateway.budget import Budget
from kvlease.gateway.directory import Directory, EngineKey
from kvlease.gateway.errors import ApiError, model_not_found, unavailable
from kvlease.gateway.prompt import Prompt
from kvlease.v1 import lease_pb2, router_pb2

# Said of the client's request; what is wrong with the gateway itself, such as its credentials, is no client's fault.
_REFUSALS: dict[type[KvleaseError], HTTPStatus] = {
    InvalidArgument: HTTPStatus.BAD_REQUEST,
    ResourceExhausted: HTTPStatus.TOO_MANY_REQUESTS,
}

log = structlog.get_logger()


class Routes(Protocol):
    """The router's part in planning."""

    async def route(
        self,
        request: router_pb2.RouteRequest,
        *,
        timeout: float,  # noqa: ASYNC109 - the client's
        tenant: str,
    ) -> router_pb2.RouteResponse: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """The engines of one try of a turn."""

    decode: router_pb2.Endpoint
    prefill: router_pb2.Endpoint | None = None
    """None: decode computes the prompt."""
    ticket: str = ""
    """Empty: planned without the router; nothing is reused or kept."""


class Planner:
    """Asks the router, within a budget of waiting; else chooses from what is known."""

    def __init__(self, router: Routes, directory: Directory, breaker: Breaker) -> None:
        self._router = router
        self._directory = directory
        self._breaker = breaker

    async def plan(
        self, prompt: Prompt, *, tenant: str, request_id: str, exclude: Collection[EngineKey], budget: Budget
    ) -> Plan:
        """Returns where to send a turn. Raises ApiError when nobody can serve it."""
        refusal: KvleaseError | None = None
        if self._breaker.allows():
            try:
                response = await self._route(prompt, tenant, request_id, exclude, budget)
            except (ModelNotFound, NoEngine, RegistryUnreachable) as error:
                refusal = error
            except KvleaseError as error:
                self._breaker.failed()
                log.warning("turn not routed", request_id=request_id, error=str(error))
            else:
                return _planned(response, prompt)
        return self._without_router(prompt.model, exclude, refusal)

    async def _route(
        self, prompt: Prompt, tenant: str, request_id: str, exclude: Collection[EngineKey], budget: Budget
    ) -> router_pb2.RouteResponse:
        request = router_pb2.RouteRequest(
            request_id=request_id,
            conversation_id="" if prompt.alone else prompt.conversation,
            model=prompt.model,
            prompt_tokens=prompt.tokens,
            exclude=[lease_pb2.EngineRef(engine_id=name, incarnation=start) for name, start in exclude],
        )
        try:
            with budget.spend() as left:
                response = await self._router.route(request, timeout=left, tenant=tenant)
        except (ModelNotFound, NoEngine, RegistryUnreachable):
            self._breaker.succeeded()
            raise
        except tuple(_REFUSALS) as error:
            self._breaker.succeeded()
            raise _refused(error) from error
        self._breaker.succeeded()
        return response

    def _without_router(self, model: str, exclude: Collection[EngineKey], refusal: KvleaseError | None) -> Plan:
        """Chooses a decode engine that was there a moment ago, whatever the router says of it now."""
        decode = self._directory.decode_for(model, exclude)
        if decode is not None:
            return Plan(decode)
        models = self._directory.models()
        if isinstance(refusal, ModelNotFound) or (refusal is None and models and model not in models):
            raise model_not_found(model)
        raise unavailable(f"no decode engine can serve the model `{model[:256]}` now")


def _planned(response: router_pb2.RouteResponse, prompt: Prompt) -> Plan:
    both = response.mode == router_pb2.ROUTE_MODE_PREFILL_DECODE and not prompt.alone
    return Plan(response.decode, response.prefill if both else None, response.ticket)


def _refused(error: KvleaseError) -> ApiError:
    status = next(status for kind, status in _REFUSALS.items() if isinstance(error, kind))
    return ApiError(status, str(error), code=error.reason.lower() or None, retry_after=error.retry_after)
