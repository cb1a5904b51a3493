"""Leases are asked for until they are granted or refused; until then, and if the answer is lost, they are held."""

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from kvlease.client import errors
from kvlease.connector.complaint import EVERY
from kvlease.v1.lease_pb2 import ConversationKey, LeaseKind
from kvlease.v1.registry_pb2 import TURN_OUTCOME_NOTHING_KEPT, GrantLeaseRequest
from kvlease.v1.router_pb2 import Leg
from tests.connector.grants import grant
from tests.connector.linked import Linked
from tests.connector.plane import HOLD, Registry, Router

Link = Callable[..., Linked]
TICKET = "kvt1.ticket"


def fill(request: GrantLeaseRequest) -> None:
    request.handle.body = b"filled"


def keep(engine: Linked, lease_id: str = "a") -> GrantLeaseRequest:
    """Keeps blocks and asks for a lease on them."""
    request = grant(lease_id)
    engine.owner.keep(request, engine.clock())
    engine.link.grant(request, fill, TICKET)
    return request


def test_a_lease_is_asked_for_once_its_request_is_complete(link: Link, registry: Registry) -> None:
    engine = link().start()

    keep(engine)

    engine.until(lambda: registry.leases)
    assert registry.leases["a"].handle.body == b"filled"
    engine.until(lambda: engine.owner.opened(HOLD, engine.clock()))  # granted: it would be announced


@pytest.mark.parametrize("count", [1, 3])
def test_a_grant_whose_answer_was_lost_is_asked_for_again_by_the_same_id(
    link: Link, registry: Registry, count: int
) -> None:
    engine = link().start()
    registry.lose_answers("GrantLease", count)

    keep(engine)

    assert registry.wait_for("GrantLease", count + 1)
    assert {asked.lease_id for asked in registry.asked("GrantLease")} == {"a"}
    assert engine.owner.holds("a")


@pytest.mark.parametrize("refusal", [errors.BudgetExhausted("full"), errors.TurnOver("over"), errors.IdTaken("taken")])
def test_blocks_of_a_refused_lease_are_let_go_at_once(
    link: Link, registry: Registry, refusal: errors.KvleaseError
) -> None:
    engine = link().start()
    registry.refuse("GrantLease", refusal)
    wakes = engine.wakes

    keep(engine)

    engine.until(lambda: engine.owner.waiting and engine.wakes > wakes)
    assert list(engine.owner.due(engine.clock())) == ["a"]


@pytest.mark.parametrize("error", [errors.Internal("reset"), errors.KvleaseError("odd"), errors.Unauthenticated("who")])
def test_a_lease_of_which_nobody_knows_whether_it_was_granted_is_taken_back_before_its_blocks_go(
    link: Link, registry: Registry, error: errors.KvleaseError
) -> None:
    engine = link().start()
    registry.lose_answers("GrantLease", by=error)
    registry.refuse("ReleaseLease", errors.Unavailable("not now"))

    keep(engine)

    assert registry.wait_for("ReleaseLease", 2)
    assert engine.owner.holds("a")
    assert "a" in registry.leases
    registry.refuse("ReleaseLease", None)
    engine.until(lambda: engine.owner.waiting)
    assert list(engine.owner.due(engine.clock())) == ["a"]
    assert registry.leases == {}


def test_a_lease_that_is_read_when_it_is_taken_back_goes_when_that_is_over(link: Link, registry: Registry) -> None:
    engine = link().start()
    registry.lose_answers("GrantLease", by=errors.Internal("reset"))
    registry.reading = True

    keep(engine)
    assert registry.wait_for("ReleaseLease", 2)
    assert engine.owner.holds("a")

    registry.order_free("a")
    engine.until(lambda: engine.owner.waiting)
    assert list(engine.owner.due(engine.clock())) == ["a"]


def test_a_lease_that_cannot_be_granted_now_is_held_and_granted_later(link: Link, registry: Registry) -> None:
    engine = link().start()
    port = registry.port
    registry.stop()

    keep(engine)
    engine.until(lambda: not engine.link.connected)
    assert engine.owner.holds("a")
    registry.start(port)

    engine.until(lambda: registry.leases)


def test_a_lease_whose_session_was_lost_is_granted_in_the_next(link: Link, registry: Registry) -> None:
    engine = link().start()
    registry.forget(boot="boot-2")

    keep(engine)

    engine.until(lambda: registry.leases)


def test_a_lease_that_the_fail_safe_has_freed_is_not_asked_for_any_more(link: Link, registry: Registry) -> None:
    engine = link().start()
    port = registry.port
    registry.stop()
    keep(engine)
    engine.clock.advance(HOLD + 0.1)
    assert list(engine.owner.due(engine.clock())) == ["a"]
    asked = len(registry.asked("GrantLease"))

    registry.start(port)
    engine.until(lambda: engine.link.connected)
    registry.wait_for("Heartbeat", len(registry.asked("Heartbeat")) + 2)

    assert len(registry.asked("GrantLease")) == asked


def test_a_lease_that_was_granted_after_its_blocks_were_freed_is_given_back(link: Link, registry: Registry) -> None:
    engine = link().start()
    registry.freeze()
    keep(engine)
    assert registry.wait_for("GrantLease", 1)
    engine.clock.advance(HOLD + 0.1)
    assert list(engine.owner.due(engine.clock())) == ["a"]

    registry.thaw()

    engine.until(lambda: "a" not in registry.leases and (registry.asked("ReleaseLease") or engine.link.connected))
    assert not engine.owner.holds("a")


def test_a_lease_whose_request_cannot_be_completed_does_not_keep_its_blocks(link: Link, registry: Registry) -> None:
    engine = link().start()
    request = grant("a")
    engine.owner.keep(request, engine.clock())

    def broken(_: GrantLeaseRequest) -> None:
        raise ValueError("these blocks cannot be told")

    engine.link.grant(request, broken, TICKET)

    engine.until(lambda: engine.owner.waiting)
    assert registry.asked("GrantLease") == []


@pytest.mark.parametrize("refusal", [errors.BudgetExhausted("full"), errors.TurnOver("over")])
def test_nobody_waits_for_a_lease_that_was_refused_before_its_turn_was_completed(
    link: Link, registry: Registry, refusal: errors.KvleaseError
) -> None:
    engine = link().start()
    registry.refuse("GrantLease", refusal)

    keep(engine)

    assert registry.wait_for("EndTurn", 1)


def test_the_registry_is_told_that_decode_keeps_nothing_of_a_turn(link: Link, registry: Registry) -> None:
    chat = ConversationKey(tenant="t", conversation_id="c")

    link().start().link.keep_nothing("ticket", chat)

    assert registry.wait_for("EndTurn", 1)
    (told,) = registry.asked("EndTurn")
    assert (told.ticket_id, told.conversation, told.outcome) == ("ticket", chat, TURN_OUTCOME_NOTHING_KEPT)
    assert told.decode.engine_id


def test_a_registry_that_does_not_know_of_it_harms_nothing(link: Link, registry: Registry) -> None:
    engine = link().start()
    registry.refuse("EndTurn", errors.Malformed("outcome"))

    engine.link.keep_nothing("ticket", ConversationKey(tenant="t", conversation_id="c"))
    keep(engine)

    engine.until(lambda: registry.leases)


# -- what the router is told -----------------------------------------------------------------------------------------


def test_the_router_is_told_how_prefill_went(link: Link, router: Router) -> None:
    engine = link().start()
    request = grant("a")
    request.report.reused_tokens = 300

    engine.link.publish(TICKET, request)

    assert router.wait_for("PublishPrefill", 1)
    (told,) = router.asked("PublishPrefill")
    assert (told.ticket, told.lease_id, told.report.reused_tokens) == (TICKET, "a", 300)


def test_the_router_is_told_that_there_will_be_no_lease(link: Link, router: Router) -> None:
    link().start().link.forgo(TICKET, "tenant")

    assert router.wait_for("CancelTicket", 1)
    (told,) = [call for call in router.calls if call.method == "CancelTicket"]
    assert (told.request.ticket, told.request.leg) == (TICKET, Leg.LEG_PREFILL)
    assert told.tenant == "tenant"


def test_it_is_told_until_it_is_heard(link: Link, router: Router) -> None:
    engine = link().start()
    router.fail_next(errors.Unavailable("the registry is not reached"))

    engine.link.forgo(TICKET, "tenant")

    assert router.wait_for("CancelTicket", 2)


def test_decode_does_not_wait_for_a_prefill_whose_blocks_the_fail_safe_has_freed(
    link: Link, registry: Registry, router: Router
) -> None:
    engine = link().start()
    registry.stop()
    request = grant("a", kind=LeaseKind.LEASE_KIND_PREFILL)
    engine.owner.keep(request, engine.clock())
    engine.link.grant(request, fill, TICKET)

    engine.clock.advance(HOLD + 0.1)
    assert list(engine.owner.due(engine.clock())) == ["a"]

    assert router.wait_for("CancelTicket", 1)


def test_a_router_that_is_gone_harms_nothing(link: Link, registry: Registry, router: Router) -> None:
    engine = link().start()
    router.stop()

    engine.link.publish(TICKET, grant("a"))
    engine.link.forgo(TICKET, "tenant")
    keep(engine, "b")

    engine.until(lambda: registry.leases)


def test_refused_leases_are_told_at_once_and_then_now_and_then(link: Link, registry: Registry) -> None:
    engine = link().start()
    refusal = errors.BudgetExhausted("over the budget", reason="BUDGET_EXHAUSTED", metadata={"budget_blocks": "4"})

    def refuse(lease_id: str) -> None:
        registry.refuse("GrantLease", refusal)
        keep(engine, lease_id)
        engine.until(lambda: lease_id in engine.owner.due(engine.clock()))

    with capture_logs() as logs:
        for lease_id in ("a", "b", "c"):
            refuse(lease_id)
        engine.clock.advance(EVERY)
        refuse("d")

    told = [line for line in logs if line["event"].startswith("lease refused")]
    assert [(line["log_level"], line["reason"]) for line in told] == [("warning", "BUDGET_EXHAUSTED")] * 2
    assert "budget_blocks 4" in told[0]["error"]
    assert told[1]["times_before"] == 2
