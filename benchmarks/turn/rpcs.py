"""What each RPC on a turn's way to its first token takes, called one at a time as gateway and connectors call it."""

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import Awaitable
from typing import TypeVar

import grpc

from benchmarks.calls.engine import MODEL, Engine, Pair
from benchmarks.codec.handle import Given
from benchmarks.sample import Sample
from kvlease.client.engine import EngineRegistryClient, EngineRouterClient
from kvlease.v1 import lease_pb2, registry_pb2, router_pb2

T = TypeVar("T")
ROUTE, RESOLVE, HISTORY = "Route", "ResolveTicket", "ClaimLease (history)"
PUBLISH, PREFILLED = "GrantLease (prefill)", "ClaimLease (prefill)"
SERIAL = (ROUTE, HISTORY, PUBLISH, PREFILLED)
"""Those that a first token waits for, one after the other. ResolveTicket runs beside the claim."""
SEEN_WITHIN = 1.5  # seconds


def measure(registry: str, router: str, *, tokens: int, turns: int) -> dict[str, float]:
    """Milliseconds of each, at the median. The engines that it pretends serve a model of their own."""
    with grpc.insecure_channel(registry) as channel:
        pair = Pair.on(channel, Given(tokens, 16_384))
        time.sleep(SEEN_WITHIN)
        try:
            return asyncio.run(_turns(pair, registry, router, turns))
        finally:
            for engine in (pair.reader, pair.owner):
                engine.stub.CloseSession(registry_pb2.CloseSessionRequest(credential=engine.credential))


async def _turns(pair: Pair, registry: str, router: str, turns: int) -> dict[str, float]:
    seen: defaultdict[str, Sample] = defaultdict(Sample)
    leases, tickets = EngineRegistryClient(registry), EngineRouterClient(router)
    for number in range(turns + 1):  # the first makes connections
        pair.beat()
        taken = await _turn(pair, leases, tickets, f"rpcs {number} {secrets.token_hex(4)}")
        for name, seconds in taken.items() if number else ():
            seen[name].values.append(seconds * 1e3)
    await leases.close()
    await tickets.close()
    return {name: sample.median for name, sample in seen.items()}


async def _turn(pair: Pair, leases: EngineRegistryClient, tickets: EngineRouterClient, name: str) -> dict[str, float]:
    reader, owner = pair.reader, pair.owner
    await leases.grant_lease(owner.grant(f"{name} history", name))
    took: dict[str, float] = {}
    asked = router_pb2.RouteRequest(request_id=name, conversation_id=name, model=MODEL, prompt_tokens=24_000)
    took[ROUTE], routed = await _timed(tickets.route(asked))
    resolve = router_pb2.ResolveTicketRequest(ticket=routed.ticket, engine=routed.prefill.engine)
    took[RESOLVE], _ = await _timed(tickets.resolve_ticket(resolve))
    took[HISTORY], _ = await _timed(leases.claim_lease(reader.claim(f"{name} history", name)))
    await leases.finish_claim(reader.finish(f"{name} history"))
    took[PUBLISH], _ = await _timed(leases.grant_lease(_prefilled(reader, routed.ticket_id, name)))
    wanted = registry_pb2.ClaimLeaseRequest(
        credential=owner.credential, claim_id=f"{name} prefill", prefill_ticket_id=routed.ticket_id
    )
    took[PREFILLED], _ = await _timed(leases.claim_lease(wanted))
    await leases.finish_claim(owner.finish(f"{name} prefill"))
    return took


def _prefilled(reader: Engine, ticket_id: str, name: str) -> registry_pb2.GrantLeaseRequest:
    grant = reader.grant(f"{name} prefill", name)
    grant.kind = lease_pb2.LEASE_KIND_PREFILL
    grant.ticket_id = ticket_id
    return grant


async def _timed(call: Awaitable[T]) -> tuple[float, T]:
    begun = time.perf_counter()
    answer = await call
    return time.perf_counter() - begun, answer
