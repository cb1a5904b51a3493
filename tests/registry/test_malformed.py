"""Whatever is sent that is not what the API says is INVALID_ARGUMENT and names the field; never INTERNAL."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import pytest_asyncio
from google.protobuf.duration_pb2 import Duration

from kvlease.v1 import lease_pb2, registry_pb2
from tests.registry.messages import branch, chat, claim, engine, grant, handle, seconds, served
from tests.support.servers import details_of, reason_of

r: Any = registry_pb2
v: Any = lease_pb2

LONG = "x" * 300
METHODS = [x.name for x in registry_pb2.DESCRIPTOR.services_by_name["RegistryService"].methods]
NONE = r.SessionCredential()


def changed(message: Any, **fields: Any) -> Any:
    """A copy of the message with some fields set; None clears one."""
    made = type(message)()
    made.CopyFrom(message)
    for name, value in fields.items():
        made.ClearField(name)
        if value is not None:
            made.MergeFrom(type(message)(**{name: value}))
    return made


def held(**fields: Any) -> Any:
    lease = v.Lease(lease_id="l1", kind=1, conversation=chat(), handle=handle(), remaining=seconds(9))
    return registry_pb2.AnnounceLeasesRequest(credential=NONE, leases=[changed(lease, **fields)])


NO_URLS = (
    None,
    "junk",
    "file:///etc/passwd",
    "http://x:notaport",
    "http://x:99999",
    "http://[::1",
    "http://prefill..svc:8000",
    f"http://{'x' * 64}:8000",
)


def of_engine(**fields: Any) -> Any:
    return registry_pb2.OpenSessionRequest(engine=changed(engine(), **fields))


def of_chain(**fields: Any) -> Any:
    return grant(NONE, handle=changed(handle(), chain=changed(handle().chain, **fields)))


def turn(**fields: Any) -> Any:
    return changed(r.EndTurnRequest(ticket_id="k", conversation=chat(), outcome=1), **fields)


def renewals(*given: registry_pb2.LeaseRenewal) -> Any:
    return registry_pb2.RenewLeasesRequest(renewals=given)


NO_ENGINE = lease_pb2.EngineRef(engine_id="d0")
CASES = [
    ("OpenSession", of_engine(ref=None), "engine.ref.engine_id"),
    ("OpenSession", of_engine(ref=NO_ENGINE), "engine.ref.incarnation"),
    ("OpenSession", of_engine(role=None), "engine.role"),
    ("OpenSession", of_engine(role=99), "engine.role"),
    *(("OpenSession", of_engine(http_url=url), "engine.http_url") for url in NO_URLS),
    ("OpenSession", of_engine(models=None), "engine.models"),
    ("OpenSession", of_engine(models=[""]), "engine.models[0]"),
    ("Heartbeat", r.HeartbeatRequest(freed_lease_ids=[""]), "freed_lease_ids[0]"),
    ("Heartbeat", r.HeartbeatRequest(renew_lease_ids=["a", LONG]), "renew_lease_ids[1]"),
    ("AnnounceLeases", held(lease_id=None), "leases[0].lease_id"),
    ("AnnounceLeases", held(kind=None), "leases[0].kind"),
    ("AnnounceLeases", held(generation=2**64 - 1), "leases[0].generation"),
    ("AnnounceLeases", held(handle=None), "leases[0].handle.token_count"),
    ("AnnounceLeases", held(remaining=Duration(seconds=-1)), "leases[0].remaining"),
    ("AnnounceLeases", r.AnnounceLeasesRequest(leases=[lease_pb2.Lease()] * 257), "leases"),
    ("GrantLease", grant(NONE, ""), "lease_id"),
    ("GrantLease", grant(NONE, LONG), "lease_id"),
    ("GrantLease", grant(NONE, kind=0), "kind"),
    ("GrantLease", grant(NONE, kind=7), "kind"),
    ("GrantLease", grant(NONE, kind=2), "ticket_id"),
    ("GrantLease", grant(NONE, stop_reason=9), "stop_reason"),
    ("GrantLease", grant(NONE, conversation=None), "conversation.tenant"),
    ("GrantLease", grant(NONE, conversation=chat("")), "conversation.conversation_id"),
    ("GrantLease", grant(NONE, conversation=chat("a\0b")), "conversation.conversation_id"),
    ("GrantLease", grant(NONE, conversation=chat("é" * 200)), "conversation.conversation_id"),
    ("GrantLease", grant(NONE, parent_lease_id=LONG), "parent_lease_id"),
    ("GrantLease", grant(NONE, handle=changed(handle(), block_count=None)), "handle.block_count"),
    ("GrantLease", grant(NONE, handle=changed(handle(), body_format=None)), "handle.body_format"),
    ("GrantLease", grant(NONE, handle=changed(handle(), request_id=None)), "handle.request_id"),
    ("GrantLease", of_chain(stride=None), "handle.chain.stride"),
    ("GrantLease", of_chain(key_id=None), "handle.chain.key_id"),
    ("GrantLease", of_chain(digests=b"short"), "handle.chain.digests"),
    ("RenewLeases", renewals(r.LeaseRenewal()), "renewals[0].target"),
    ("RenewLeases", renewals(r.LeaseRenewal(lease_id="")), "renewals[0].lease_id"),
    ("RenewLeases", renewals(r.LeaseRenewal(conversation_id="")), "renewals[0].conversation_id"),
    ("RenewLeases", renewals(r.LeaseRenewal(lease_id="a", ttl=Duration(seconds=-1))), "renewals[0].ttl"),
    ("RenewLeases", renewals(r.LeaseRenewal(lease_id="a", ttl=Duration(nanos=-1))), "renewals[0].ttl"),
    ("RenewLeases", renewals(*[r.LeaseRenewal(lease_id="a")] * 1001), "renewals"),
    ("ReleaseLease", r.ReleaseLeaseRequest(), "lease_id"),
    ("ReleaseLease", r.ReleaseLeaseRequest(lease_id="l1", wait=seconds(30.5)), "wait"),
    ("ReleaseAll", r.ReleaseAllRequest(wait=seconds(31)), "wait"),
    ("ReleaseAll", r.ReleaseAllRequest(wait=Duration(seconds=1, nanos=2_000_000_000)), "wait"),
    ("EndConversation", r.EndConversationRequest(), "conversation_id"),
    ("EndConversation", r.EndConversationRequest(conversation_id=LONG), "conversation_id"),
    ("ClaimLease", r.ClaimLeaseRequest(claim_id="c"), "target"),
    ("ClaimLease", claim(NONE, ""), "claim_id"),
    ("ClaimLease", claim(NONE, lease_id=""), "lease_id"),
    ("ClaimLease", claim(NONE, prefill_ticket_id=""), "prefill_ticket_id"),
    ("ClaimLease", claim(NONE, lease_id="l", wait=seconds(61)), "wait"),
    ("ClaimLease", claim(NONE, branch=changed(branch("text"), conversation=None)), "branch.conversation.tenant"),
    ("ClaimLease", claim(NONE, branch=changed(branch("text"), stride=None)), "branch.stride"),
    ("ClaimLease", claim(NONE, branch=changed(branch("text"), key_id=None)), "branch.key_id"),
    ("ClaimLease", claim(NONE, branch=changed(branch("text"), digests=b"1")), "branch.digests"),
    ("ClaimLease", claim(NONE, branch=changed(branch("some text"), strides=[2, 1])), "branch.strides"),
    ("ClaimLease", claim(NONE, branch=changed(branch("some text"), strides=[0, 1])), "branch.strides"),
    ("ClaimLease", claim(NONE, branch=branch("x" * 4 * 257)), "branch.strides"),
    ("RenewClaim", r.RenewClaimRequest(), "claim_id"),
    ("FinishClaim", r.FinishClaimRequest(outcome=1), "claim_id"),
    ("FinishClaim", r.FinishClaimRequest(claim_id="c"), "outcome"),
    ("EndTurn", turn(ticket_id=None), "ticket_id"),
    ("EndTurn", turn(conversation=None), "conversation.tenant"),
    ("EndTurn", turn(outcome=None), "outcome"),
    ("EndTurn", turn(stop_reason=9), "stop_reason"),
    ("EndTurn", turn(outcome=4), "decode.engine_id"),
    ("EndTurn", turn(decode=NO_ENGINE), "decode.incarnation"),
    ("DrainEngine", r.DrainEngineRequest(), "engine_id"),
    ("RevokeLeases", r.RevokeLeasesRequest(), "lease_ids"),
    ("RevokeLeases", r.RevokeLeasesRequest(lease_ids=[""]), "lease_ids[0]"),
    ("RevokeLeases", r.RevokeLeasesRequest(engine_id=LONG), "engine_id"),
    ("RevokeLeases", r.RevokeLeasesRequest(conversation=chat("")), "conversation.conversation_id"),
    ("GetLease", r.GetLeaseRequest(), "lease_id"),
    ("GetLease", r.GetLeaseRequest(lease_id="l", view=9), "view"),
    ("ListLeases", r.ListLeasesRequest(page_token="?"), "page_token"),  # noqa: S106
    ("ListLeases", r.ListLeasesRequest(page_token="²"), "page_token"),  # noqa: S106
    ("ListLeases", r.ListLeasesRequest(page_token="9" * 99), "page_token"),
    ("ListLeases", r.ListLeasesRequest(view=9), "view"),
    ("ListLeases", r.ListLeasesRequest(filter=r.LeaseFilter(kind=9)), "filter.kind"),
    ("ListLeases", r.ListLeasesRequest(filter=r.LeaseFilter(state=9)), "filter.state"),
    ("LocateConversations", r.LocateConversationsRequest(conversations=[chat("c")] * 1001), "conversations"),
    ("WatchLeases", r.WatchLeasesRequest(filter=r.LeaseFilter(conversation_id=LONG)), "filter.conversation_id"),
    ("ListEngines", r.ListEnginesRequest(model=LONG), "model"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def registry() -> AsyncIterator[Any]:
    async with served() as (_, registry):
        yield registry


async def called(registry: Any, method: str, request: Any) -> None:
    """Calls a method, or reads once where it streams."""
    call = getattr(registry, method)(request)
    await (call.read() if method == "WatchLeases" else call)


async def refused(registry: Any, method: str, request: Any) -> grpc.aio.AioRpcError:
    """The error of a call that does not succeed."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await called(registry, method, request)
    return caught.value


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(("method", "request_", "field"), CASES, ids=[f"{x[0]}-{x[2]}" for x in CASES])
async def test_the_wrong_field_is_named(registry: Any, method: str, request_: Any, field: str) -> None:
    error = await refused(registry, method, request_)

    assert (error.code(), reason_of(error)) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED")
    fields = [x.field for x in details_of(error)["BadRequest"].field_violations]  # type: ignore[attr-defined]
    assert field in fields


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("method", METHODS)
async def test_an_empty_request_never_breaks_the_server(registry: Any, method: str) -> None:
    request = getattr(r, f"{method}Request")()
    fine = {"ListLeases", "LocateConversations", "WatchLeases", "ListEngines", "RenewLeases"}
    if method in fine:
        await called(registry, method, request)
        return

    error = await refused(registry, method, request)

    assert error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)


def test_every_method_has_a_case() -> None:
    without_fields = {"CloseSession"}  # only a credential, which is unknown rather than malformed

    assert {method for method, _, _ in CASES} | without_fields == set(METHODS)
