"""What a turn's record means to people."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from kvlease.cli.output import length
from kvlease.cli.verdict import ALONE, NOT_REUSED, PARTLY, REASONS, REUSED, UNKNOWN, judge
from kvlease.client.types import (
    Engine,
    EngineRef,
    EngineRole,
    PrefillReport,
    PrefillState,
    RouteMode,
    Ticket,
    TicketState,
    TicketTerms,
)
from tests.cli.records import engine

ROOT = Path(__file__).resolve().parents[2]
CONNECTOR = ROOT / "connector" / "kvlease" / "connector"

TURN = Ticket(
    terms=TicketTerms(
        ticket_id="t",
        tenant="default",
        conversation_id="c",
        mode=RouteMode.PREFILL_DECODE,
        prefill=EngineRef("p", "1"),
        decode=EngineRef("d", "1"),
        base_generation=1,
        lifetime=3600.0,
    ),
    state=TicketState.COMPLETED,
    age=10.0,
    model="m",
    leased_tokens=500,
    decision="decode d: holds the conversation; prefill p: least loaded",
    report=None,
    prefill_state=PrefillState.PUBLISHED,
)


def turn(*, reused: int = 0, local: int = 0, miss: str = "", leased: int = 500) -> Ticket:
    report = PrefillReport(
        prompt_tokens=600,
        local_tokens=local,
        reused_tokens=reused,
        computed_tokens=600 - local - reused,
        miss_reason=miss,
        kv_bytes=0,
        prefill_duration=0.1,
        added_wait=0.0,
    )
    return replace(TURN, report=report, leased_tokens=leased)


def test_all_that_was_kept_is_reuse() -> None:
    assert judge(turn(reused=500), None, {}).outcome == REUSED


def test_a_question_that_is_asked_anew_is_not_blamed_on_whoever_asks() -> None:
    verdict = judge(turn(reused=512, leased=620), None, {})

    assert (verdict.outcome, verdict.advice) == (PARTLY, "")
    assert "512 of the 620 tokens that were kept, in steps of 128" in verdict.why


def test_a_turn_that_was_taken_back_needs_no_advice() -> None:
    assert not judge(replace(TURN, state=TicketState.CANCELLED), None, {}).advice


def test_less_than_was_kept_is_partial_and_says_from_where_the_prompt_differs() -> None:
    verdict = judge(turn(reused=384), None, {})

    assert verdict.outcome == PARTLY
    assert "from about token 384 on" in verdict.why
    assert "exactly" in verdict.advice


def test_what_prefill_had_itself_is_reuse() -> None:
    assert judge(turn(local=500, miss="FOUND_LOCALLY"), None, {}).outcome == REUSED
    assert judge(turn(local=480, miss="BELOW_THRESHOLD"), None, {}).outcome == REUSED


def test_a_conversation_too_short_to_be_kept_is_said_to_be() -> None:
    missed = turn(miss="NO_LEASE", leased=0)
    assert missed.report
    short = replace(missed, report=replace(missed.report, prompt_tokens=100))

    verdict = judge(short, replace(TURN, age=20.0), {})

    assert "less than 128 tokens" in verdict.why
    assert not verdict.advice


def test_a_first_turn_has_nothing_to_reuse() -> None:
    verdict = judge(turn(miss="NO_LEASE", leased=0), None, {})

    assert (verdict.outcome, verdict.advice) == (NOT_REUSED, "")
    assert "first turn" in verdict.why


KEEPS = engine("d", ref=EngineRef("d", "1"), retention_budget_blocks=100, block_size=16)


@pytest.mark.parametrize("silence", [1.0, 90.0])
def test_of_a_lease_that_is_gone_nothing_is_said_that_is_not_known(silence: float) -> None:
    before = replace(TURN, age=10.0 + silence)

    verdict = judge(turn(miss="NO_LEASE", leased=0), before, {"d": KEEPS})

    assert f"{length(silence)} after" in verdict.why
    assert all(word in verdict.why for word in ("expired", "ended", "revoked", "no room"))
    assert "conversation()" in verdict.advice
    assert "--answered-ttl" in verdict.advice


@pytest.mark.parametrize(
    ("decode", "said"),
    [
        (replace(KEEPS, bidirectional=False), "d keeps nothing"),
        (replace(KEEPS, ref=EngineRef("d", "2"), rival_http_url="http://other"), "two processes"),
        (replace(KEEPS, ref=EngineRef("d", "2")), "d was started again"),
        (replace(KEEPS, retention_budget_blocks=30), "may keep 480 tokens"),
        (None, "d is gone"),
    ],
)
def test_what_is_certain_of_a_lease_that_is_gone_is_said(decode: Engine | None, said: str) -> None:
    before = replace(turn(), age=11.0)

    verdict = judge(turn(miss="NO_LEASE", leased=0), before, {"d": decode} if decode else {})

    assert said in verdict.why
    assert "expired" not in verdict.why


def test_a_turn_that_was_cancelled_left_nothing() -> None:
    before = replace(TURN, age=20.0, state=TicketState.CANCELLED)

    assert "cancelled" in judge(turn(miss="NO_LEASE", leased=0), before, {}).why


def test_a_lease_may_go_between_routing_and_prefill() -> None:
    assert "between" in judge(turn(miss="NO_LEASE"), TURN, {}).why


def test_a_request_without_a_conversation_reuses_nothing() -> None:
    nameless = replace(TURN, terms=replace(TURN.terms, conversation_id=""))

    assert "no conversation" in judge(nameless, None, {}).why


@pytest.mark.parametrize(
    ("decision", "advice"),
    [
        ("prefill none: the registry is out of reach", "must be reachable"),
        ("no other engine fits", "same version"),
    ],
)
def test_decode_alone_is_told_with_the_routers_reason(decision: str, advice: str) -> None:
    alone = replace(TURN, terms=replace(TURN.terms, prefill=None), decision=decision)

    verdict = judge(alone, None, {"p": engine("p")})

    assert verdict.outcome == ALONE
    assert decision in verdict.why
    assert advice in verdict.advice


def test_decode_alone_is_not_told_to_be_alike_to_engines_that_are_not_there() -> None:
    alone = replace(TURN, terms=replace(TURN.terms, prefill=None), decision="no other engine fits")

    verdict = judge(alone, None, {"d": engine("d"), "e": engine("e", role=EngineRole.DECODE)})

    assert "start a prefill engine" in verdict.advice
    assert "prefix cache" in verdict.why


def test_a_flag_that_is_missing_on_prefill_is_named() -> None:
    verdict = judge(turn(), TURN, {"p": engine("p", bidirectional=False)})

    assert "p does not read KV back" in verdict.why
    assert "bidirectional_kv_xfer" in verdict.advice


@pytest.mark.parametrize("state", [TicketState.ROUTED, TicketState.COMPLETED])
def test_without_a_report_nothing_is_known(state: TicketState) -> None:
    assert judge(replace(TURN, state=state), None, {}).outcome == UNKNOWN


def test_a_prefill_that_failed_is_no_miss_of_the_engines_link() -> None:
    verdict = judge(replace(TURN, prefill_state=PrefillState.FAILED), None, {})

    assert (verdict.outcome, verdict.why) == (NOT_REUSED, "prefill failed, and decode computed the prompt")


def test_a_word_that_is_new_is_passed_on() -> None:
    assert "SOME_NEW_WORD" in judge(turn(miss="SOME_NEW_WORD"), TURN, {}).why


def test_every_word_of_the_connector_is_explained() -> None:
    source = "".join((CONNECTOR / name).read_text() for name in ("turn.py", "reader.py", "reads.py"))

    assert set(re.findall(r'"([A-Z]+_[A-Z_]+)"', source)) <= set(REASONS)
