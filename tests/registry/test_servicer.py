"""The RPCs over a real server: what travels, who may call, how errors look."""

import asyncio
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration

from kvlease.registry.settings import Settings
from kvlease.v1 import lease_pb2, registry_pb2
from tests.registry.messages import (
    AS_TENANT,
    announcement,
    chat,
    claim,
    engine,
    grant,
    handle,
    opened,
    seconds,
    served,
)
from tests.support.servers import reason_of

MIB = 1024 * 1024


async def refusal(call: Any) -> tuple[grpc.StatusCode, str]:
    """The status and the reason of a call that is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code(), reason_of(caught.value)


def length(given: Duration) -> float:
    """Seconds, to the tenth: the real clock goes on meanwhile."""
    return round(given.seconds + given.nanos * 1e-9, 1)


async def test_a_session_is_opened_with_the_times_to_keep_to() -> None:
    async with served() as (_, registry):
        answer = await registry.OpenSession(registry_pb2.OpenSessionRequest(engine=engine()))

    timing = answer.timing
    assert [x.seconds for x in (timing.heartbeat_interval, timing.hold, timing.claim, timing.margin)] == [1, 12, 5, 1]
    assert answer.retention_budget_blocks == 500
    assert answer.boot_id
    assert answer.credential.session_secret


async def test_a_conversations_lease_from_grant_to_order() -> None:
    async with served() as (_, registry):
        decode, prefill = await opened(registry, "d0"), await opened(registry, "p0")
        granted = await registry.GrantLease(grant(decode))
        claimed = await registry.ClaimLease(claim(prefill))
        assert (granted.generation, length(granted.remaining)) == (1, 60.0)
        assert claimed.lease.handle == handle()
        assert (claimed.matched_tokens, length(claimed.ttl)) == (8, 5.0)
        renewed = await registry.RenewClaim(registry_pb2.RenewClaimRequest(credential=prefill, claim_id="c1"))
        assert length(renewed.ttl) == 5.0

        conversation = registry_pb2.EndConversationRequest(conversation_id="chat")
        assert (await registry.EndConversation(conversation, metadata=AS_TENANT)).leases == 1
        used = registry_pb2.READ_OUTCOME_USED
        await registry.FinishClaim(registry_pb2.FinishClaimRequest(credential=prefill, claim_id="c1", outcome=used))

        shown = await registry.GetLease(registry_pb2.GetLeaseRequest(lease_id="l1"), metadata=AS_TENANT)
        assert shown.lease.retire_reason == lease_pb2.RETIRE_REASON_ENDED


async def test_a_renewal_is_told_to_the_owner() -> None:
    async with served() as (_, registry):
        decode = await opened(registry)
        await registry.GrantLease(grant(decode))
        renewal = registry_pb2.LeaseRenewal(conversation_id="chat", ttl=seconds(100))

        answer = await registry.RenewLeases(registry_pb2.RenewLeasesRequest(renewals=[renewal]), metadata=AS_TENANT)
        told = await registry.Heartbeat(registry_pb2.HeartbeatRequest(credential=decode, received_number=1))

    (result,) = answer.results
    assert (result.status, result.leases, length(result.remaining)) == (1, 1, 100.0)
    (order,) = told.orders
    assert (order.lease_id, order.WhichOneof("action")) == ("l1", "remaining")


async def test_all_leases_are_released_at_once() -> None:
    async with served() as (_, registry):
        decode = await opened(registry)
        await registry.GrantLease(grant(decode))

        answer = await registry.ReleaseAll(registry_pb2.ReleaseAllRequest(credential=decode))
        await registry.CloseSession(registry_pb2.CloseSessionRequest(credential=decode))

    assert [*answer.released_lease_ids, *answer.claimed_lease_ids] == ["l1"]


async def test_leases_are_announced_with_a_result_each() -> None:
    async with served() as (_, registry):
        decode = await opened(registry)
        held = lease_pb2.Lease(
            lease_id="l1",
            kind=lease_pb2.LEASE_KIND_DECODE,
            conversation=chat(),
            generation=4,
            handle=handle(),
            remaining=seconds(9),
        )

        answer = await registry.AnnounceLeases(registry_pb2.AnnounceLeasesRequest(credential=decode, leases=[held]))

    (result,) = answer.results
    assert (result.lease_id, result.status, result.generation) == ("l1", registry_pb2.ANNOUNCE_STATUS_KEPT, 4)


async def test_the_end_of_a_turn_answers_prefills_report() -> None:
    report = lease_pb2.PrefillReport(prompt_tokens=100, reused_tokens=60, computed_tokens=40)
    async with served() as (_, registry):
        prefill = await opened(registry)
        await registry.GrantLease(grant(prefill, kind=lease_pb2.LEASE_KIND_PREFILL, ticket_id="k1", report=report))
        ended = registry_pb2.EndTurnRequest(
            ticket_id="k1", conversation=chat(), outcome=registry_pb2.TURN_OUTCOME_COMPLETED
        )

        answer = await registry.EndTurn(ended)
        unknown = await registry.EndTurn(
            registry_pb2.EndTurnRequest(ticket_id="x", conversation=chat(), outcome=registry_pb2.TURN_OUTCOME_COMPLETED)
        )

    assert answer.report == report
    assert not unknown.HasField("report")


@pytest.mark.parametrize("view", [registry_pb2.LEASE_VIEW_UNSPECIFIED, registry_pb2.LEASE_VIEW_BASIC])
async def test_the_basic_view_has_neither_digests_nor_body(view: registry_pb2.LeaseView.ValueType) -> None:
    async with served() as (_, registry):
        await registry.GrantLease(grant(await opened(registry)))

        page = await registry.ListLeases(registry_pb2.ListLeasesRequest(view=view), metadata=AS_TENANT)
        whole = await registry.ListLeases(
            registry_pb2.ListLeasesRequest(view=registry_pb2.LEASE_VIEW_FULL), metadata=AS_TENANT
        )

    assert (page.leases[0].handle.chain.digests, page.leases[0].handle.body) == (b"", b"")
    assert page.leases[0].handle.token_count == 9
    assert whole.leases[0].handle == handle()


async def test_pages_lead_on_by_their_token() -> None:
    async with served() as (_, registry):
        decode = await opened(registry)
        for i in range(3):
            await registry.GrantLease(grant(decode, f"l{i}", conversation=chat(f"chat{i}")))

        first = await registry.ListLeases(registry_pb2.ListLeasesRequest(page_size=2), metadata=AS_TENANT)
        rest = registry_pb2.ListLeasesRequest(page_size=2, page_token=first.next_page_token)
        second = await registry.ListLeases(rest, metadata=AS_TENANT)

    assert [x.lease_id for x in (*first.leases, *second.leases)] == ["l0", "l1", "l2"]
    assert second.next_page_token == ""


async def test_engines_are_listed_as_they_described_themselves() -> None:
    async with served() as (_, registry):
        credential = await opened(registry)
        load = registry_pb2.EngineLoad(running=3, free_blocks=7)
        await registry.Heartbeat(registry_pb2.HeartbeatRequest(credential=credential, load=load))

        (shown,) = (await registry.ListEngines(registry_pb2.ListEnginesRequest(model="m"))).engines

    assert (shown.engine, shown.load, shown.healthy) == (engine(), load, True)


async def test_a_watch_tells_what_exists_and_what_happens() -> None:
    async with served() as (_, registry):
        decode = await opened(registry)
        await registry.GrantLease(grant(decode))
        watch = registry.WatchLeases(registry_pb2.WatchLeasesRequest(), metadata=AS_TENANT)
        seen = [await watch.read(), await watch.read()]
        await registry.GrantLease(grant(decode, "l2", conversation=chat("other")))
        seen.append(await watch.read())
        watch.cancel()

    assert [(x.event, x.lease.lease_id) for x in seen] == [(1, "l1"), (2, ""), (3, "l2")]
    assert not seen[0].lease.handle.body


async def test_a_stopping_registry_ends_waits_and_watches() -> None:
    async with served() as (server, registry):
        decode = await opened(registry)
        watch = registry.WatchLeases(registry_pb2.WatchLeasesRequest())
        await watch.read()
        waiting = asyncio.ensure_future(
            refusal(registry.ClaimLease(claim(decode, prefill_ticket_id="k", wait=seconds(60))))
        )
        watching = asyncio.ensure_future(refusal(watch.read()))
        await registry.ListEngines(registry_pb2.ListEnginesRequest())

        await server.drain(60.0)

        assert await waiting == (grpc.StatusCode.UNAVAILABLE, "DRAINING")
        assert await watching == (grpc.StatusCode.UNAVAILABLE, "DRAINING")


async def test_a_handle_of_a_million_tokens_is_granted_and_claimed() -> None:
    big = handle()
    big.token_count, big.block_count = 1_000_000, 62_500
    big.chain.stride, big.chain.digests = 128, bytes(8 * -(-1_000_000 // 128))
    big.body = bytes(range(250)) * 1000
    fine = lease_pb2.Handle()
    fine.CopyFrom(big)
    fine.chain.stride, fine.chain.digests = 16, bytes(8 * 62_500)
    async with served() as (_, registry):
        decode = await opened(registry, blocks=500_000)
        for i, given in enumerate((big, fine)):
            await registry.GrantLease(grant(decode, f"l{i}", handle=given))

            claimed = await registry.ClaimLease(claim(decode, f"c{i}", lease_id=f"l{i}"))

            assert claimed.lease.handle == given


async def test_a_list_of_large_handles_fits() -> None:
    big = handle()
    big.body = bytes(MIB)
    async with served() as (_, registry):
        decode = await opened(registry)
        for i in range(3):
            await registry.GrantLease(grant(decode, f"l{i}", handle=big, conversation=chat(f"chat{i}")))

        basic = await registry.ListLeases(registry_pb2.ListLeasesRequest(), metadata=AS_TENANT)

    assert len(basic.leases) == 3
    assert basic.ByteSize() < 10_000


async def test_refusals_have_their_status_and_reason() -> None:
    async with served() as (_, registry):
        decode = await opened(registry)
        unknown = registry_pb2.SessionCredential(session_id="x", session_secret="y")  # noqa: S106
        wrong = registry_pb2.SessionCredential(session_id=decode.session_id, session_secret="y")  # noqa: S106
        code = grpc.StatusCode

        assert await refusal(registry.GrantLease(grant(unknown))) == (code.NOT_FOUND, "SESSION_NOT_FOUND")
        assert await refusal(registry.GrantLease(grant(wrong))) == (code.PERMISSION_DENIED, "SESSION_SECRET_WRONG")
        assert await refusal(registry.ClaimLease(claim(decode))) == (code.NOT_FOUND, "NO_LEASE")
        lost = registry_pb2.RenewClaimRequest(credential=decode, claim_id="x")
        assert await refusal(registry.RenewClaim(lost)) == (code.ABORTED, "CLAIM_LOST")
        pending = claim(decode, prefill_ticket_id="k1", wait=seconds(0.01))
        assert await refusal(registry.ClaimLease(pending)) == (code.DEADLINE_EXCEEDED, "PREFILL_PENDING")
        ahead = registry_pb2.HeartbeatRequest(credential=decode, received_number=99)
        assert await refusal(registry.Heartbeat(ahead)) == (code.INVALID_ARGUMENT, "MALFORMED")


async def test_another_tenants_lease_is_not_found() -> None:
    async with served() as (_, registry):
        await registry.GrantLease(grant(await opened(registry)))

        found = refusal(registry.GetLease(registry_pb2.GetLeaseRequest(lease_id="l1")))

        assert await found == (grpc.StatusCode.NOT_FOUND, "LEASE_NOT_FOUND")


async def test_a_watcher_that_is_too_slow_is_told_so() -> None:
    async with served(Settings(watch_limit=1)) as (_, registry):
        decode = await opened(registry)
        watch = registry.WatchLeases(registry_pb2.WatchLeasesRequest(), metadata=AS_TENANT)
        await watch.read()

        ids = [f"l{i}" for i in range(3)]
        await registry.AnnounceLeases(announcement(decode, *ids))

        assert await refusal(watch.read()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "WATCHER_TOO_SLOW")
