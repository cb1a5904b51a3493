"""What the clients send: from plain arguments to `kvlease.v1`. Pure but for the ids made here."""

import uuid
from collections.abc import Iterable, Sequence

from google.protobuf.duration_pb2 import Duration

from kvlease.client import types, words
from kvlease.client.arguments import conversation, count, lifetime, seconds, text
from kvlease.client.renewal import Hold
from kvlease.v1 import lease_pb2, registry_pb2, router_pb2

RENEWALS_PER_CALL = 1000


def duration(length: float) -> Duration:
    """Converts seconds, to the nanosecond."""
    whole, nanos = divmod(round(length * 1e9), 1_000_000_000)
    return Duration(seconds=whole, nanos=nanos)


def engine_ref(ref: types.EngineRef) -> lease_pb2.EngineRef:
    return lease_pb2.EngineRef(engine_id=ref.engine_id, incarnation=ref.incarnation)


def route(
    model: str, conversation_id: str, prompt_tokens: int, exclude: Iterable[types.EngineRef], request_id: str
) -> router_pb2.RouteRequest:
    """Asks for engines; makes the id up unless there is one, so that all attempts of one call carry the same."""
    return router_pb2.RouteRequest(
        request_id=text("request_id", request_id) or uuid.uuid4().hex,
        conversation_id=conversation(conversation_id, optional=True),
        model=text("model", model),
        prompt_tokens=count("prompt_tokens", prompt_tokens),
        exclude=map(engine_ref, exclude),
    )


def resolve(ticket: str, engine: types.EngineRef, wait: float) -> router_pb2.ResolveTicketRequest:
    return router_pb2.ResolveTicketRequest(
        ticket=text("ticket", ticket), engine=engine_ref(engine), wait=duration(seconds("wait", wait))
    )


def complete(ticket: str, stop_reason: types.StopReason | None) -> router_pb2.CompleteTicketRequest:
    reason = words.STOP_REASON.write(stop_reason)
    return router_pb2.CompleteTicketRequest(ticket=text("ticket", ticket), stop_reason=reason)


def cancel(ticket: str, leg: types.Leg | None) -> router_pb2.CancelTicketRequest:
    return router_pb2.CancelTicketRequest(ticket=text("ticket", ticket), leg=words.LEG.write(leg))


def renew(
    conversation_ids: Iterable[str], lease_ids: Iterable[str], ttl: float | None
) -> list[registry_pb2.RenewLeasesRequest]:
    """Asks for renewals, conversations first, in as few calls as the registry takes."""
    wanted = None if ttl is None else duration(lifetime("ttl", ttl))
    return _batches(
        [
            *(
                registry_pb2.LeaseRenewal(conversation_id=conversation(name, name="conversation_ids"), ttl=wanted)
                for name in conversation_ids
            ),
            *(registry_pb2.LeaseRenewal(lease_id=text("lease_ids", name), ttl=wanted) for name in lease_ids),
        ]
    )


def not_found(conversation_ids: Sequence[str], renewals: Sequence[types.Renewal]) -> list[str]:
    """Names the conversations, which come first in a renewal, that have no lease any more."""
    told = zip(conversation_ids, renewals, strict=False)
    return [name for name, renewal in told if renewal.status is types.RenewStatus.NOT_FOUND]


def renew_holds(holds: Iterable[Hold]) -> list[registry_pb2.RenewLeasesRequest]:
    """Asks for the renewal of what is held, in order."""
    return _batches(
        [registry_pb2.LeaseRenewal(conversation_id=hold.conversation_id, ttl=duration(hold.ttl)) for hold in holds]
    )


def _batches(renewals: Sequence[registry_pb2.LeaseRenewal]) -> list[registry_pb2.RenewLeasesRequest]:
    starts = range(0, len(renewals), RENEWALS_PER_CALL)
    return [registry_pb2.RenewLeasesRequest(renewals=renewals[i : i + RENEWALS_PER_CALL]) for i in starts]


def list_leases(
    conversation_id: str, engine_id: str, kind: types.LeaseKind | None, state: types.LeaseState | None
) -> registry_pb2.ListLeasesRequest:
    return registry_pb2.ListLeasesRequest(filter=_lease_filter(conversation_id, engine_id, kind, state))


def watch_leases(
    conversation_id: str, engine_id: str, kind: types.LeaseKind | None, state: types.LeaseState | None
) -> registry_pb2.WatchLeasesRequest:
    return registry_pb2.WatchLeasesRequest(filter=_lease_filter(conversation_id, engine_id, kind, state))


def _lease_filter(
    conversation_id: str, engine_id: str, kind: types.LeaseKind | None, state: types.LeaseState | None
) -> registry_pb2.LeaseFilter:
    return registry_pb2.LeaseFilter(
        conversation_id=conversation(conversation_id, optional=True),
        engine_id=text("engine_id", engine_id),
        kind=words.LEASE_KIND.write(kind),
        state=words.LEASE_STATE.write(state),
    )
