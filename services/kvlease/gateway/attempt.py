"""One try of a turn: the two legs under one ticket."""

import asyncio
from http import HTTPStatus

import structlog

from kvlease.gateway.budget import Budget
from kvlease.gateway.directory import key_of
from kvlease.gateway.http.answer import Answer, UpstreamError
from kvlease.gateway.http.message import Request
from kvlease.gateway.legs import Pieces, decode_body, leg_headers, prefill_body
from kvlease.gateway.plan import Plan
from kvlease.gateway.plane import Plane
from kvlease.gateway.prompt import Prompt
from kvlease.v1 import lease_pb2, router_pb2

log = structlog.get_logger()


class Attempt:
    """Sends the legs, watches prefill, and ends the ticket one way or the other."""

    def __init__(self, plane: Plane, plan: Plan, prompt: Prompt, request: Request, *, name: str, tenant: str) -> None:
        """Takes a *name* that is unique: each leg's request id is made of it."""
        self.plan = plan
        self._plane = plane
        self._prompt = prompt
        self._request = request
        self._name = name
        self._tenant = tenant
        self._prefill: asyncio.Task[None] | None = None
        self._decode: Answer | None = None

    async def dispatch(self) -> Answer:
        """Sends both legs; returns decode's answer once its head has come.

        Raises UpstreamError when decode fails. Prefill's failure only leaves decode to work alone.
        """
        if self.plan.prefill is not None:
            self._prefill = self._plane.background.start(self._run_prefill(self.plan.prefill))
            if not self._plane.settings.concurrent_dispatch:
                await asyncio.wait([self._prefill])
        ticket = "" if self._prompt.alone else self.plan.ticket
        self._decode = await self._post(self.plan.decode, "decode", decode_body(self._prompt, ticket))
        return self._decode

    async def complete(self, stopped: lease_pb2.StopReason.ValueType, budget: Budget) -> lease_pb2.PrefillReport | None:
        """Ends the turn as answered; returns how prefill came by its KV, where that is known."""
        return await self._plane.tickets.complete(self.plan.ticket, stopped, tenant=self._tenant, budget=budget)

    def abandon(self) -> None:
        """Takes both legs back and ends the turn as not answered."""
        self.close()
        self._plane.tickets.cancel(self.plan.ticket, router_pb2.LEG_UNSPECIFIED, tenant=self._tenant)

    def close(self) -> None:
        """Closes what is still open of the legs."""
        if self._prefill is not None:
            self._prefill.cancel()
        if self._decode is not None:
            self._decode.abort()

    async def _run_prefill(self, endpoint: router_pb2.Endpoint) -> None:
        answer: Answer | None = None
        try:
            answer = await self._post(endpoint, "prefill", prefill_body(self._prompt, self.plan.ticket))
            said = await answer.read()
            failure = "" if answer.status == HTTPStatus.OK else f"{answer.status} {said[:500].decode(errors='replace')}"
        except UpstreamError as error:
            failure = str(error)
        except Exception:  # whatever it is, decode waits for prefill until it is told not to
            log.exception("prefill leg broken", request=self._name)
            failure = "a fault of the gateway"
        finally:
            if answer is not None:
                answer.abort()
        if failure:
            self._plane.metrics.prefill_failures.inc()
            log.warning("prefill failed", engine=endpoint.engine.engine_id, request=self._name, error=failure)
            self._plane.tickets.cancel(self.plan.ticket, router_pb2.LEG_PREFILL, tenant=self._tenant)

    async def _post(self, endpoint: router_pb2.Endpoint, leg: str, body: Pieces) -> Answer:
        rank = endpoint.data_parallel_rank if endpoint.data_parallel_size > 1 else None
        headers = leg_headers(self._request, f"{self._name}-{leg}", rank, key=self._plane.settings.key_for_engines)
        peer = key_of(endpoint.engine)
        return await self._plane.pool.post(endpoint.http_url, self._prompt.path.encode(), headers, body, peer=peer)
