"""Requests as an engine, an application or a router sends them, and a served registry to send them to."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import grpc
from google.protobuf.duration_pb2 import Duration

from kvlease.registry.service import create
from kvlease.registry.settings import Settings
from kvlease.rpc import OPEN, Protection, Server
from kvlease.v1 import lease_pb2, registry_pb2, registry_pb2_grpc
from tests.registry.digests import KEY_ID, STRIDE, digests
from tests.support.servers import serving

Credential: TypeAlias = registry_pb2.SessionCredential

TENANT = "t1"
AS_TENANT = (("x-kvlease-tenant", TENANT),)


@asynccontextmanager
async def served(settings: Settings | None = None, protection: Protection = OPEN) -> AsyncIterator[tuple[Server, Any]]:
    """A registry on a free port, and a stub for it."""
    async with (
        create(settings or Settings()) as service,
        serving(service, protection=protection) as (server, channel),
    ):
        yield server, stub(channel)


def stub(channel: grpc.aio.Channel) -> Any:
    """A stub whose types do not get in the way of tables of methods."""
    return registry_pb2_grpc.RegistryServiceStub(channel)


def engine(engine_id: str = "d0", incarnation: str = "i1", blocks: int = 1000) -> registry_pb2.Engine:
    return registry_pb2.Engine(
        ref=lease_pb2.EngineRef(engine_id=engine_id, incarnation=incarnation),
        role=registry_pb2.ENGINE_ROLE_BOTH,
        models=["m"],
        http_url="http://127.0.0.1:8000",
        total_blocks=blocks,
    )


async def opened(registry: Any, engine_id: str = "d0", blocks: int = 1000) -> Credential:
    """Opens a session and proves it."""
    answer = await registry.OpenSession(registry_pb2.OpenSessionRequest(engine=engine(engine_id, blocks=blocks)))
    await registry.Heartbeat(registry_pb2.HeartbeatRequest(credential=answer.credential))
    credential: Credential = answer.credential
    return credential


def chat(conversation_id: str = "chat") -> lease_pb2.ConversationKey:
    return lease_pb2.ConversationKey(tenant=TENANT, conversation_id=conversation_id)


def handle(text: str = "some text", engine_id: str = "d0") -> lease_pb2.Handle:
    return lease_pb2.Handle(
        engine=lease_pb2.EngineRef(engine_id=engine_id, incarnation="i1"),
        request_id="r1",
        token_count=len(text),
        block_count=1,
        chain=lease_pb2.PrefixChain(key_id=KEY_ID, stride=STRIDE, digests=digests(text)),
        body=b"blocks",
        body_format="test/1",
    )


def grant(
    credential: registry_pb2.SessionCredential, lease_id: str = "l1", **more: Any
) -> registry_pb2.GrantLeaseRequest:
    given = {"kind": lease_pb2.LEASE_KIND_DECODE, "conversation": chat(), "handle": handle(), **more}
    return registry_pb2.GrantLeaseRequest(credential=credential, lease_id=lease_id, **given)


def claim(
    credential: registry_pb2.SessionCredential, claim_id: str = "c1", **more: Any
) -> registry_pb2.ClaimLeaseRequest:
    given = more or {"branch": branch("some text")}
    return registry_pb2.ClaimLeaseRequest(credential=credential, claim_id=claim_id, **given)


def announcement(credential: Credential, *lease_ids: str) -> registry_pb2.AnnounceLeasesRequest:
    """Announces leases, each of a conversation of its own."""
    request = registry_pb2.AnnounceLeasesRequest(credential=credential)
    for x in lease_ids:
        kind = lease_pb2.LEASE_KIND_DECODE
        request.leases.add(
            lease_id=x, kind=kind, conversation=chat(x), generation=4, handle=handle(), remaining=seconds(9)
        )
    return request


def completed(ticket_id: str) -> registry_pb2.EndTurnRequest:
    outcome = registry_pb2.TURN_OUTCOME_COMPLETED
    return registry_pb2.EndTurnRequest(ticket_id=ticket_id, conversation=chat(), outcome=outcome)


def branch(text: str) -> registry_pb2.BranchTarget:
    whole = len(text) // STRIDE
    return registry_pb2.BranchTarget(
        conversation=chat(),
        key_id=KEY_ID,
        stride=STRIDE,
        strides=range(1, whole + 1),
        digests=digests(text)[: 8 * whole],
    )


def seconds(length: float) -> Duration:
    made = Duration()
    made.FromNanoseconds(round(length * 1e9))
    return made
