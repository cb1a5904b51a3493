import threading
import time
from collections.abc import Iterator

import pytest

from kvlease.client import types
from kvlease.client.errors import (
    ClientClosed,
    DeadlineExceeded,
    Draining,
    IdTaken,
    LeaseNotFound,
    ModelNotFound,
    NoEngine,
    TicketForged,
    TicketNotFound,
    Unavailable,
)
from kvlease.client.sync import Client
from kvlease.client.testing import FakeRegistry, FakeRouter


@pytest.fixture
def client(registry: FakeRegistry, router: FakeRouter) -> Iterator[Client]:
    with Client(registry=registry.address, router=router.address) as client:
        yield client


def test_a_conversation_goes_on_where_its_lease_is(client: Client) -> None:
    first = client.route("model", conversation_id="c", prompt_tokens=100)
    cost = client.complete(first.ticket, stop_reason=types.StopReason.ANSWERED)

    second = client.route("model", conversation_id="c", prompt_tokens=150)
    cheaper = client.complete(second.ticket)

    assert first.mode is types.RouteMode.PREFILL_DECODE
    assert (first.leased_tokens, second.leased_tokens) == (0, 100)
    assert first.decode == second.decode
    assert cost is not None
    assert cheaper is not None
    assert (cost.computed_tokens, cheaper.computed_tokens, cheaper.reused_tokens) == (100, 50, 100)


def test_a_route_made_again_with_its_id_gives_the_same_ticket(client: Client) -> None:
    first = client.route("model", request_id="r")

    assert client.route("model", request_id="r") == first
    assert client.route("model").ticket_id != first.ticket_id


def test_a_route_made_again_after_its_turn_is_routed_anew(client: Client) -> None:
    first = client.route("model", request_id="r")
    client.cancel(first.ticket)

    assert client.route("model", request_id="r").ticket_id != first.ticket_id


def test_a_route_made_again_for_something_else_is_refused(client: Client) -> None:
    client.route("model", request_id="r")

    with pytest.raises(IdTaken):
        client.route("model", request_id="r", conversation_id="c")


def test_engines_that_failed_are_left_out(client: Client) -> None:
    turn = client.route("model")

    with pytest.raises(NoEngine):
        client.route("model", exclude=[turn.decode.engine])


def test_an_unknown_model_has_no_engine(client: Client) -> None:
    with pytest.raises(ModelNotFound) as raised:
        client.route("other")

    assert raised.value.metadata == {"model": "other"}


def test_a_ticket_says_which_leg_an_engine_is(client: Client) -> None:
    turn = client.route("model", conversation_id="c")

    resolved = client.resolve(turn.ticket, turn.decode.engine)

    assert resolved.leg is types.Leg.DECODE
    assert resolved.terms.ticket_id == turn.ticket_id
    assert resolved.terms.conversation_id == "c"
    assert resolved.prefill_state is types.PrefillState.PENDING


def test_a_changed_ticket_is_forged(client: Client) -> None:
    turn = client.route("model")

    with pytest.raises(TicketForged):
        client.complete(turn.ticket.replace("kvt1.", "kvt1.A"))


def test_a_cancelled_turn_leaves_no_lease(client: Client) -> None:
    turn = client.route("model", conversation_id="c", prompt_tokens=10)

    client.cancel(turn.ticket)

    assert client.get_ticket(turn.ticket_id).state is types.TicketState.CANCELLED
    assert client.complete(turn.ticket) is None
    assert client.list_leases(conversation_id="c") == []


def test_a_turn_whose_prefill_was_cancelled_goes_on(client: Client) -> None:
    turn = client.route("model", conversation_id="c")

    client.cancel(turn.ticket, leg=types.Leg.PREFILL)

    assert client.get_ticket(turn.ticket_id).state is types.TicketState.ROUTED


def test_tickets_are_listed_newest_first(client: Client) -> None:
    turns = [client.route("model", conversation_id=name) for name in ("a", "b", "a")]

    assert [ticket.terms.ticket_id for ticket in client.list_tickets(conversation_id="a")] == [
        turns[2].ticket_id,
        turns[0].ticket_id,
    ]
    assert len(client.list_tickets(limit=2)) == 2
    with pytest.raises(TicketNotFound):
        client.get_ticket("other")


def test_renewals_are_answered_one_by_one(client: Client, registry: FakeRegistry) -> None:
    registry.grant("a", ttl=5.0)
    lease_id = registry.grant("b", ttl=5.0)

    known, unknown, single = client.renew("a", "none", lease_ids=[lease_id], ttl=100.0)

    assert (known.status, known.leases) == (types.RenewStatus.RENEWED, 1)
    assert 90.0 < known.remaining <= 100.0
    assert unknown == types.Renewal(types.RenewStatus.NOT_FOUND, 0.0, 0)
    assert single.status is types.RenewStatus.RENEWED


def test_an_ended_conversation_has_no_lease(client: Client, registry: FakeRegistry) -> None:
    lease_id = registry.grant("c")

    assert client.get_lease(lease_id).conversation_id == "c"
    assert client.end("c") == 1
    assert client.end("c") == 0
    with pytest.raises(LeaseNotFound):
        client.get_lease(lease_id)


def test_leases_are_listed_over_all_pages(
    client: Client, registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvlease.client.testing.registry.PAGE", 2)
    granted = [registry.grant(str(number)) for number in range(5)]

    assert [lease.lease_id for lease in client.list_leases()] == granted
    assert [lease.lease_id for lease in client.list_leases(conversation_id="3")] == [granted[3]]
    assert client.list_leases(state=types.LeaseState.FREED) == []


def test_a_watch_tells_what_exists_then_what_happens(client: Client, registry: FakeRegistry) -> None:
    registry.grant("a")
    events = client.watch_leases()

    seen = [next(events).kind, next(events).kind]
    registry.grant("b")
    granted = next(events)
    client.end("b")
    retired = next(events)
    events.close()

    assert seen == [types.LeaseEventKind.EXISTS, types.LeaseEventKind.SYNCED]
    assert granted.kind is types.LeaseEventKind.GRANTED
    assert granted.lease is not None
    assert granted.lease.conversation_id == "b"
    assert retired.lease is not None
    assert retired.lease.retire_reason is types.RetireReason.ENDED


def test_engines_are_listed_with_their_state(client: Client, registry: FakeRegistry) -> None:
    registry.engines["prefill"].healthy = False

    assert [engine.ref.engine_id for engine in client.list_engines()] == ["decode"]
    assert [engine.ref.engine_id for engine in client.list_engines(include_lost=True)] == ["decode", "prefill"]
    assert client.list_engines(model="other") == []


def test_a_tenant_sees_its_own_leases_only(registry: FakeRegistry, router: FakeRouter) -> None:
    registry.grant("c", tenant="a")

    with Client(registry=registry.address, router=router.address, tenant="b") as other:
        assert other.list_leases() == []
        assert other.end("c") == 0
    with Client(registry=registry.address, router=router.address, tenant="a") as owner:
        assert len(owner.list_leases()) == 1


def test_an_address_where_nobody_listens_is_unavailable_once_the_time_is_over(registry: FakeRegistry) -> None:
    address = registry.address
    registry.stop()

    with Client(registry=address) as client, pytest.raises(Unavailable):
        client.list_engines(timeout=0.3)


def test_a_server_that_does_not_answer_exceeds_the_deadline(client: Client, registry: FakeRegistry) -> None:
    registry.freeze()

    with pytest.raises(DeadlineExceeded):
        client.list_engines(timeout=0.1)


def test_a_server_that_is_stopping_is_asked_again(client: Client, registry: FakeRegistry) -> None:
    registry.fail_next(Draining("stopping"), Draining("stopping"))

    assert len(client.list_engines()) == 2
    assert len(registry.calls) == 3


def test_a_closed_client_says_so(registry: FakeRegistry) -> None:
    client = Client(registry=registry.address)
    client.list_engines()

    client.close()
    client.close()

    with pytest.raises(ClientClosed):
        client.list_engines()


def test_a_call_that_is_repeated_when_the_client_is_closed_ends(client: Client, registry: FakeRegistry) -> None:
    client.list_engines()
    registry.stop()
    raised: list[BaseException] = []

    def call() -> None:
        try:
            client.list_engines(timeout=30.0)
        except Exception as error:  # noqa: BLE001 - any is looked at
            raised.append(error)

    calling = threading.Thread(target=call)
    calling.start()
    time.sleep(0.2)
    client.close()
    calling.join(10.0)

    assert [type(error) for error in raised] == [ClientClosed]


def test_a_watch_ends_when_the_client_is_closed(client: Client) -> None:
    events = client.watch_leases()
    next(events)

    client.close()

    with pytest.raises(ClientClosed):
        list(events)
