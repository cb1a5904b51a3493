from enum import StrEnum
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from kvlease.client import convert, requests, types, words
from kvlease.client.errors import Internal
from kvlease.v1 import lease_pb2, registry_pb2, router_pb2

PAIRS = [
    (words.ROUTE_MODE, types.RouteMode, router_pb2.RouteMode),
    (words.LEG, types.Leg, router_pb2.Leg),
    (words.PREFILL_STATE, types.PrefillState, router_pb2.PrefillState),
    (words.TICKET_STATE, types.TicketState, router_pb2.TicketState),
    (words.ENGINE_ROLE, types.EngineRole, registry_pb2.EngineRole),
    (words.LEASE_KIND, types.LeaseKind, lease_pb2.LeaseKind),
    (words.LEASE_STATE, types.LeaseState, lease_pb2.LeaseState),
    (words.RETIRE_REASON, types.RetireReason, lease_pb2.RetireReason),
    (words.STOP_REASON, types.StopReason, lease_pb2.StopReason),
    (words.RENEW_STATUS, types.RenewStatus, registry_pb2.RenewStatus),
    (words.LEASE_EVENT_KIND, types.LeaseEventKind, registry_pb2.LeaseEvent),
]


@pytest.mark.parametrize(("pair", "here", "there"), PAIRS)
def test_every_word_of_the_api_has_its_twin(pair: words.Words[Any], here: type[StrEnum], there: Any) -> None:
    numbers = [value.number for value in there.DESCRIPTOR.values if value.number]

    read = [pair.read(number) for number in numbers]

    assert set(read) == set(here) - {here["UNKNOWN"]}
    assert [pair.write(word) for word in read] == numbers


def test_a_word_of_a_newer_server_is_unknown() -> None:
    assert words.LEASE_STATE.read(99) is types.LeaseState.UNKNOWN


def test_no_word_is_none_where_it_may_be_absent() -> None:
    assert words.RETIRE_REASON.read_optional(0) is None


@pytest.mark.parametrize("value", [0.0, 1e-9, 0.999999999, 1.5, 59.25, 3600.0])
def test_seconds_survive_the_way_there_and_back(value: float) -> None:
    assert convert.seconds(requests.duration(value)) == pytest.approx(value, abs=1e-9)


def test_a_turn_without_prefill_has_none() -> None:
    answer = router_pb2.RouteResponse(
        ticket="t",
        mode=router_pb2.ROUTE_MODE_DECODE_ONLY,
        decode=router_pb2.Endpoint(engine=lease_pb2.EngineRef(engine_id="d"), http_url="http://d"),
        ttl=Duration(seconds=3),
    )

    turn = convert.turn(answer)

    assert turn.prefill is None
    assert turn.mode is types.RouteMode.DECODE_ONLY
    assert turn.decode == types.Endpoint(types.EngineRef("d", ""), "http://d")
    assert turn.ttl == 3.0


def test_a_lease_shows_its_handle_flat() -> None:
    proto = lease_pb2.Lease(
        lease_id="l",
        kind=lease_pb2.LEASE_KIND_DECODE,
        state=lease_pb2.LEASE_STATE_RETIRING,
        conversation=lease_pb2.ConversationKey(tenant="a", conversation_id="c"),
        handle=lease_pb2.Handle(
            engine=lease_pb2.EngineRef(engine_id="d", incarnation="1"), token_count=100, block_count=7
        ),
        remaining=Duration(seconds=1, nanos=500_000_000),
        retire_reason=lease_pb2.RETIRE_REASON_SUPERSEDED,
    )

    lease = convert.lease(proto)

    assert (lease.tokens, lease.blocks, lease.engine) == (100, 7, types.EngineRef("d", "1"))
    assert (lease.tenant, lease.conversation_id, lease.remaining) == ("a", "c", 1.5)
    assert (lease.stop_reason, lease.retire_reason) == (None, types.RetireReason.SUPERSEDED)


def test_renewals_are_sent_a_thousand_at_a_time() -> None:
    sent = requests.renew([str(number) for number in range(1500)], ["lease"], ttl=2.0)

    assert [len(request.renewals) for request in sent] == [1000, 501]
    assert sent[1].renewals[-1].lease_id == "lease"


def test_no_ttl_leaves_it_to_the_registry() -> None:
    (request,) = requests.renew(["c"], [], ttl=None)

    assert not request.renewals[0].HasField("ttl")


def test_a_registry_that_answers_other_renewals_than_asked_is_not_believed() -> None:
    (request,) = requests.renew(["a", "b"], [], ttl=None)

    with pytest.raises(Internal):
        convert.renewals(request, registry_pb2.RenewLeasesResponse(results=[registry_pb2.RenewResult()]))


def test_a_call_made_again_carries_the_same_id_and_another_call_another() -> None:
    first = requests.route("m", "c", 0, (), "")
    second = requests.route("m", "c", 0, (), "")

    assert first.request_id
    assert first.request_id != second.request_id
    assert requests.route("m", "c", 0, (), "mine").request_id == "mine"
