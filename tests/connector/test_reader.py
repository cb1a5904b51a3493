"""What a turn may read is claimed while the router proves its ticket, and the claim is kept while it is read."""

import math
from collections.abc import Callable, Sequence

import pytest

from kvlease.client import errors
from kvlease.connector import body
from kvlease.connector.admission import admit, chain_of
from kvlease.connector.settings import Settings
from kvlease.connector.turn import Answer, Turn
from kvlease.v1 import router_pb2
from kvlease.v1.lease_pb2 import EngineRef, Handle, Lease
from kvlease.v1.registry_pb2 import ReadOutcome
from tests.connector.linked import Linked
from tests.connector.plane import CLAIM, Registry, Router
from tests.connector.requests import DECODE, LAYOUT, PREFILL, Request, engine, seal, terms

Link = Callable[..., Linked]
SETTINGS = Settings.of({"bidirectional_kv_xfer": True}, {"KVLEASE_WAIT": "50ms"})
PROMPT = range(1000)


def lease(tokens: Sequence[int] = range(900), *, owner: EngineRef = DECODE, settings: Settings = SETTINGS) -> Lease:
    """A lease on the KV of *tokens*."""
    chain = chain_of(Request(prompt=tokens), terms(), settings, LAYOUT, tokens)
    address = {"remote_engine_id": "n", "remote_host": "h", "remote_port": 1}
    return Lease(
        lease_id="l",
        handle=Handle(
            engine=owner,
            token_count=len(tokens),
            chain=chain.prefix(len(tokens)),
            body=body.encode(address, [range(60)]),
            body_format=body.FORMAT,
        ),
    )


def turn(linked: Linked, ref: EngineRef = PREFILL, *, signature: str = "c2lnbmVk", lifetime: int = 60) -> Turn:
    """A turn that has just come to this engine."""
    said = terms()
    said.lifetime.FromSeconds(lifetime)
    request = Request(prompt=PROMPT, kv_transfer_params={"kvlease_ticket": seal(said, signature)})
    made = admit(request, engine(ref), SETTINGS, linked.clock(), groups=1)
    assert made is not None
    return made


def answer(linked: Linked, asked: Turn) -> Answer:
    """Asks, and waits for the answer."""
    linked.link.ask(asked)
    linked.until(lambda: linked.link.answered)
    assert linked.link.answered.popleft() is asked
    assert asked.answer is not None
    return asked.answer


def outcomes(registry: Registry) -> list[str]:
    return [ReadOutcome.Name(asked.outcome).removeprefix("READ_OUTCOME_") for asked in registry.asked("FinishClaim")]


# -- claims ----------------------------------------------------------------------------------------------------------


def test_a_branch_is_claimed_and_proved(link: Link, registry: Registry) -> None:
    registry.publish("c", lease())
    linked = link().start()

    got = answer(linked, turn(linked))

    assert got.claim is not None
    assert (got.proved, got.miss) == (900, "")
    assert got.claim.lease.lease_id == "l"
    assert got.claim.end == linked.clock() + CLAIM
    assert (got.params["remote_engine_id"], got.params["remote_block_ids"]) == ("n", (list(range(60)),))


def test_a_claim_names_the_turn_and_shows_the_prompt_at_its_boundaries(link: Link, registry: Registry) -> None:
    linked = link().start()

    answer(linked, turn(linked))

    (asked,) = registry.asked("ClaimLease")
    assert (asked.ticket_id, asked.branch.conversation.conversation_id) == ("ticket", "c")
    assert list(asked.branch.strides) == [1, 2, 3, 4, 5, 6, 7]
    assert len(asked.branch.digests) == 7 * 8
    assert (asked.branch.stride, asked.branch.key_id) == (128, SETTINGS.digest_key.key_id)


def test_a_claim_waits_for_a_grant_that_is_due_no_longer_than_the_request_may(link: Link, registry: Registry) -> None:
    linked = link().start()
    asked = turn(linked)
    linked.clock.advance(0.03)

    answer(linked, asked)

    assert registry.asked("ClaimLease")[0].wait.ToMilliseconds() in (19, 20)


def test_a_claims_end_counts_from_when_it_was_asked_for(link: Link, registry: Registry) -> None:
    registry.publish("c", lease())
    linked = link().start()
    registry.freeze()
    asked, sent = turn(linked), linked.clock()
    linked.link.ask(asked)
    assert registry.wait_for("ClaimLease", 1)
    linked.clock.advance(3.0)

    registry.thaw()
    linked.until(lambda: linked.link.answered)

    assert asked.claim is not None
    assert asked.claim.end == sent + CLAIM


# -- misses ----------------------------------------------------------------------------------------------------------


def test_without_a_lease_the_turn_is_told_why(link: Link) -> None:
    linked = link().start()

    got = answer(linked, turn(linked))

    assert (got.claim, got.miss) == (None, "NO_LEASE")


def broken(change: str) -> Lease:
    made = lease()
    match change:
        case "FORMAT_UNKNOWN":
            made.handle.body_format = "nixl/9"
        case "OWN_LEASE":
            made.handle.engine.CopyFrom(PREFILL)
        case "DIGEST_KEY_DIFFERS":
            made = lease(settings=Settings.of({}, {"KVLEASE_DIGEST_KEY": "another"}))
        case "NO_MATCH":
            made = lease(range(1, 900))
        case "BODY_UNREADABLE":
            made.handle.body = b"\xff"
    return made


@pytest.mark.parametrize("miss", ["FORMAT_UNKNOWN", "OWN_LEASE", "DIGEST_KEY_DIFFERS", "NO_MATCH", "BODY_UNREADABLE"])
def test_what_cannot_be_read_is_given_back_at_once(link: Link, registry: Registry, miss: str) -> None:
    registry.publish("c", broken(miss))
    linked = link().start()

    got = answer(linked, turn(linked))

    assert (got.claim, got.proved, got.miss) == (None, 0, miss)
    assert registry.wait_for("FinishClaim", 1)
    assert outcomes(registry) == ["NOT_NEEDED"]


def test_a_forged_ticket_gives_no_read(link: Link, registry: Registry) -> None:
    registry.publish("c", lease())
    linked = link().start()

    got = answer(linked, turn(linked, signature="forged"))

    assert (got.claim, got.miss) == (None, "TICKET_FORGED")


def test_a_forged_ticket_waits_for_no_prefill(link: Link) -> None:
    linked = link(DECODE).start()

    got = answer(linked, turn(linked, DECODE, signature="forged", lifetime=100_000))

    assert (got.claim, got.miss) == (None, "TICKET_FORGED")


def test_a_router_that_says_nothing_gives_no_read(link: Link, registry: Registry, router: Router) -> None:
    registry.publish("c", lease())
    linked = link().start()
    router.freeze()

    got = answer(linked, turn(linked))

    assert (got.claim, got.miss) == (None, "ROUTER_SILENT")
    assert registry.wait_for("FinishClaim", 1)
    assert outcomes(registry) == ["NOT_NEEDED"]


def test_a_router_that_is_gone_gives_no_read(link: Link, registry: Registry, router: Router) -> None:
    registry.publish("c", lease())
    linked = link().start()
    router.stop()

    assert answer(linked, turn(linked)).claim is None


def test_without_a_session_nothing_is_waited_for(link: Link, registry: Registry) -> None:
    linked = link().start()
    registry.stop()
    linked.until(lambda: not linked.link.connected)

    assert answer(linked, turn(linked)).miss == "NO_SESSION"
    assert answer(linked, turn(linked)).claim is None


def test_a_fault_of_ours_is_a_miss_too(link: Link) -> None:
    linked = link().start()
    asked = turn(linked)

    def broken_chain() -> None:
        raise OverflowError("a token that is none")

    asked.chain = broken_chain  # type: ignore[assignment]

    assert answer(linked, asked).miss == "FAULT"


def test_an_answer_that_nobody_waits_for_any_more_gives_its_claim_back(link: Link, registry: Registry) -> None:
    registry.publish("c", lease())
    linked = link().start()
    asked = turn(linked)
    asked.close()

    linked.link.ask(asked)

    assert registry.wait_for("FinishClaim", 1)
    assert outcomes(registry) == ["NOT_NEEDED"]
    assert not linked.link.answered


# -- prefill that is awaited -----------------------------------------------------------------------------------------


def test_decode_asks_again_until_prefill_has_published(link: Link, registry: Registry) -> None:
    linked = link(DECODE).start()
    asked = turn(linked, DECODE)
    linked.link.ask(asked)
    assert registry.wait_for("ClaimLease", 3)
    assert asked.answer is None

    registry.publish("ticket", lease(PROMPT, owner=PREFILL))

    linked.until(lambda: linked.link.answered)
    assert (asked.usable_tokens, len({claim.claim_id for claim in registry.asked("ClaimLease")})) == (1000, 1)


def test_a_prefill_that_failed_ends_the_wait(link: Link, registry: Registry) -> None:
    linked = link(DECODE).start()
    asked = turn(linked, DECODE)
    linked.link.ask(asked)
    assert registry.wait_for("ClaimLease", 2)

    registry.refuse("ClaimLease", errors.PrefillFailed("prefill failed"))

    linked.until(lambda: linked.link.answered)
    assert (asked.claim, asked.answer) == (None, Answer(miss="PREFILL_FAILED"))


def test_nobody_asks_for_a_request_that_has_gone(link: Link, registry: Registry) -> None:
    linked = link(DECODE).start()
    asked = turn(linked, DECODE)
    linked.link.ask(asked)
    assert registry.wait_for("ClaimLease", 1)

    asked.close()
    calls = len(registry.asked("ClaimLease")) + 1  # one may be under way

    assert registry.wait_for("Heartbeat", len(registry.asked("Heartbeat")) + 2)
    assert len(registry.asked("ClaimLease")) <= calls


def test_decode_waits_no_longer_for_a_prefill_that_the_router_knows_to_have_failed(link: Link, router: Router) -> None:
    linked = link(DECODE).start()
    asked = turn(linked, DECODE)
    linked.link.ask(asked)
    assert router.wait_for("ResolveTicket", 1)

    router.prefill = router_pb2.PREFILL_STATE_FAILED  # which the registry was not told

    linked.until(lambda: linked.link.answered)
    assert asked.answer == Answer(miss="PREFILL_FAILED")


def test_decode_waits_for_no_prefill_that_nobody_could_take_back(link: Link, router: Router) -> None:
    linked = link(DECODE).start()
    asked = turn(linked, DECODE)
    linked.link.ask(asked)
    assert router.wait_for("ResolveTicket", 1)

    router.stop()

    linked.until(lambda: linked.link.answered)
    assert asked.answer is not None
    assert asked.answer.claim is None


def test_no_prefill_is_awaited_after_its_tickets_life(link: Link, registry: Registry) -> None:
    linked = link(DECODE).start()
    asked = turn(linked, DECODE, lifetime=60)
    linked.link.ask(asked)
    assert registry.wait_for("ClaimLease", 1)

    linked.clock.advance(60.1)

    linked.until(lambda: linked.link.answered)
    assert asked.answer == Answer(miss="PREFILL_PENDING")


@pytest.mark.parametrize("how", ["frozen", "gone"])
def test_decode_does_not_wait_for_a_registry_that_says_nothing(link: Link, registry: Registry, how: str) -> None:
    linked = link(DECODE).start()
    asked = turn(linked, DECODE)
    linked.link.ask(asked)
    assert registry.wait_for("ClaimLease", 1)

    registry.freeze() if how == "frozen" else registry.stop()

    linked.until(lambda: linked.link.answered)
    assert asked.claim is None


# -- keeping and ending a claim --------------------------------------------------------------------------------------


def test_a_claim_is_renewed_until_it_is_finished(link: Link, registry: Registry) -> None:
    registry.claim_ttl = 0.3
    registry.publish("c", lease())
    linked = link().start()
    got = answer(linked, turn(linked))
    assert got.claim is not None
    linked.clock.advance(0.2)
    assert registry.wait_for("RenewClaim", 2)
    linked.until(lambda: got.claim and got.claim.end == linked.clock() + 0.3)

    linked.link.finish(got.claim, ReadOutcome.READ_OUTCOME_USED, 900)

    assert registry.wait_for("FinishClaim", 1)
    (told,) = registry.asked("FinishClaim")
    assert (told.claim_id, told.outcome, told.tokens) == (got.claim.claim_id, ReadOutcome.READ_OUTCOME_USED, 900)
    renewals = len(registry.asked("RenewClaim"))
    assert registry.wait_for("Heartbeat", len(registry.asked("Heartbeat")) + 3)
    assert len(registry.asked("RenewClaim")) == renewals


def test_a_claim_that_waited_long_is_renewed_by_what_is_left_of_it(link: Link, registry: Registry) -> None:
    registry.claim_ttl = 1200.0
    registry.publish("c", lease())
    linked = link().start()
    registry.freeze()
    asked = turn(linked)
    linked.link.ask(asked)
    assert registry.wait_for("ClaimLease", 1)
    linked.clock.advance(1199.7)

    registry.thaw()

    assert registry.wait_for("RenewClaim", 1)


def test_a_claim_that_cannot_be_renewed_ends_when_it_was_to_end(link: Link, registry: Registry) -> None:
    registry.claim_ttl = 0.3
    registry.publish("c", lease())
    linked = link().start()
    registry.refuse("RenewClaim", errors.ClaimLost("lost"))
    got = answer(linked, turn(linked))
    assert got.claim is not None
    end = got.claim.end

    assert registry.wait_for("RenewClaim", 1)
    linked.clock.advance(0.2)

    assert registry.wait_for("Heartbeat", len(registry.asked("Heartbeat")) + 2)
    assert got.claim.end == end
    assert not math.isinf(end)


def test_a_renewal_whose_answer_was_lost_is_asked_for_again(link: Link, registry: Registry) -> None:
    registry.claim_ttl = 0.3
    registry.publish("c", lease())
    linked = link().start()
    registry.lose_answers("RenewClaim", 2)
    got = answer(linked, turn(linked))
    linked.clock.advance(0.2)

    assert registry.wait_for("RenewClaim", 3)
    linked.until(lambda: got.claim and got.claim.end == linked.clock() + 0.3)


def test_a_claim_that_ends_while_the_registry_is_gone_harms_nothing(link: Link, registry: Registry) -> None:
    registry.publish("c", lease())
    linked = link().start()
    got = answer(linked, turn(linked))
    assert got.claim is not None
    registry.stop()

    linked.link.finish(got.claim, ReadOutcome.READ_OUTCOME_USED, 900)

    linked.until(lambda: not linked.link.connected)
