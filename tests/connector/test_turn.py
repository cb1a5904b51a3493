"""A request's way through an engine: nothing is promised twice, nothing is read on a claim that may be over."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlease.connector.claim import Claim
from kvlease.connector.prefix import Chain, DigestKey
from kvlease.connector.turn import Answer, Source, Stage, Turn
from kvlease.v1.lease_pb2 import Handle, Lease, LeaseKind
from kvlease.v1.registry_pb2 import ReadOutcome
from kvlease.v1.router_pb2 import TicketTerms

KEY = DigestKey(b"k")
DEADLINE = 10.0
THRESHOLD = 64


def turn(source: Source = Source.BRANCH, *, prompt: int = 1000, whole_only: bool = False) -> Turn:
    return Turn(
        request_id="r",
        ticket="t",
        terms=TicketTerms(ticket_id="id"),
        source=source,
        keeps=LeaseKind.LEASE_KIND_PREFILL,
        chain=lambda: Chain(KEY, KEY.seed({}), [1] * prompt),
        prompt_tokens=prompt,
        deadline=DEADLINE,
        whole_only=whole_only,
    )


def claimed(proved: int, *, held: int = 1000, end: float = 100.0) -> Answer:
    lease = Lease(lease_id="l", parent_lease_id="p", handle=Handle(token_count=held))
    return Answer(Claim("c", lease, end), proved)


def reading(read: int = 512, *, local: int = 0, end: float = 100.0) -> Turn:
    """A turn whose read of *read* tokens has begun."""
    begun = turn()
    begun.settle(claimed(local + read, end=end))
    begun.local_tokens = local
    assert begun.offer(local, THRESHOLD, 0.0) == read
    begun.used(local, read)
    begun.stage = Stage.READING
    return begun


# -- offers ----------------------------------------------------------------------------------------------------------


def test_a_request_waits_for_its_answer_until_the_deadline_and_no_longer() -> None:
    asked = turn()

    assert asked.offer(0, THRESHOLD, DEADLINE - 0.001) is None
    assert asked.offer(0, THRESHOLD, DEADLINE) == 0
    assert asked.report.miss_reason == ""  # nothing was computed yet
    asked.used(0, 0)
    assert asked.report.miss_reason == "WAIT_OVER"


def test_an_answer_after_the_deadline_comes_to_nothing() -> None:
    asked = turn()
    asked.offer(0, THRESHOLD, DEADLINE)

    assert not asked.settle(claimed(512))
    assert asked.offer(0, THRESHOLD, DEADLINE) == 0


def test_what_is_proved_is_offered_less_what_is_here_already() -> None:
    asked = turn()
    asked.settle(claimed(512))

    assert asked.offer(128, THRESHOLD, 0.0) == 384


def test_no_more_is_offered_than_the_prompt_has() -> None:
    asked = turn(prompt=200)
    asked.settle(claimed(512))

    assert asked.offer(0, THRESHOLD, 0.0) == 200


def test_the_same_is_offered_until_vllm_has_room_for_it() -> None:
    asked = turn()
    asked.settle(claimed(512))

    assert [asked.offer(0, THRESHOLD, 0.0) for _ in range(3)] == [512] * 3


@pytest.mark.parametrize("stage", [Stage.PARKED, Stage.READING, Stage.OVER])
@pytest.mark.parametrize("source", [Source.BRANCH, Source.PREFILL])
def test_nothing_is_offered_twice(stage: Stage, source: Source) -> None:
    asked = turn(source)
    asked.settle(claimed(512))
    asked.stage = stage

    assert asked.offer(0, THRESHOLD, 0.0) == 0
    assert asked.parking(512) == 0


@pytest.mark.parametrize(("local", "offered"), [(448, 64), (449, 0), (512, 0), (600, 0)])
def test_the_threshold_counts_after_the_local_prefix_hits(local: int, offered: int) -> None:
    asked = turn()
    asked.settle(claimed(512))

    assert asked.offer(local, THRESHOLD, 0.0) == offered


def test_without_a_threshold_any_token_is_worth_reading_but_none_is_not() -> None:
    asked = turn()
    asked.settle(claimed(512))

    assert asked.offer(511, 0, 0.0) == 1
    assert asked.offer(512, 0, 0.0) == 0


@pytest.mark.parametrize(("proved", "offered"), [(1000, 1000), (896, 0)])
def test_a_model_whose_prefix_cannot_be_shortened_reads_all_or_nothing(proved: int, offered: int) -> None:
    asked = turn(prompt=1200, whole_only=True)
    asked.settle(claimed(proved, held=1000))

    assert asked.offer(0, THRESHOLD, 0.0) == offered


def test_without_a_claim_nothing_is_offered() -> None:
    asked = turn()
    asked.settle(Answer(proved=512, miss="NO_LEASE"))

    assert asked.offer(0, THRESHOLD, 0.0) == 0


def test_a_turn_without_a_source_waits_for_nothing() -> None:
    assert turn(Source.NOTHING).offer(0, THRESHOLD, 0.0) == 0


def test_decode_parks_as_long_as_prefills_kv_may_come() -> None:
    parked = turn(Source.PREFILL)

    assert parked.parking(1000) == 1000
    parked.settle(claimed(1000))
    assert parked.parking(1000) == 1000


def test_decode_does_not_park_once_prefills_kv_will_not_come() -> None:
    parked = turn(Source.PREFILL)
    parked.settle(Answer(miss="PREFILL_FAILED"))

    assert parked.parking(1000) == 0


@pytest.mark.parametrize("count", [0, -5])
def test_decode_does_not_park_for_what_it_has(count: int) -> None:
    assert turn(Source.PREFILL).parking(count) == 0


@given(
    st.integers(0, 2000),
    st.integers(0, 2000),
    st.integers(1, 2000),
    st.integers(0, 256),
    st.booleans(),
)
def test_an_offer_never_goes_beyond_proof_or_prompt(
    proved: int, local: int, prompt: int, threshold: int, whole: bool
) -> None:
    asked = turn(prompt=prompt, whole_only=whole)
    asked.settle(claimed(proved, held=max(proved, 1)))

    count = asked.offer(local, threshold, 0.0)

    assert count is not None
    assert count == 0 or (count >= max(1, threshold) and local + count <= min(proved, prompt))


# -- judgements ------------------------------------------------------------------------------------------------------


def test_a_read_that_ended_under_its_claim_is_used() -> None:
    assert reading(end=50.0).judge(49.9, failed=False) == ReadOutcome.READ_OUTCOME_USED


def test_a_read_that_ended_with_its_claim_is_late() -> None:
    late = reading(512, local=128, end=50.0)

    assert late.judge(50.0, failed=False) == ReadOutcome.READ_OUTCOME_LATE
    assert (late.report.miss_reason, late.report.reused_tokens, late.report.computed_tokens) == ("READ_LATE", 0, 872)


def test_a_claim_that_was_renewed_while_reading_counts() -> None:
    renewed = reading(end=50.0)
    assert renewed.claim is not None
    renewed.claim.extend(sent=48.0, ttl=5.0)

    assert renewed.judge(52.0, failed=False) == ReadOutcome.READ_OUTCOME_USED


def test_a_failed_read_failed_whatever_the_claim() -> None:
    failed = reading(end=50.0)

    assert failed.judge(49.0, failed=True) == ReadOutcome.READ_OUTCOME_FAILED
    assert (failed.report.miss_reason, failed.report.reused_tokens) == ("READ_FAILED", 0)


def test_a_read_without_a_claim_is_never_used() -> None:
    unclaimed = turn()
    unclaimed.settle(Answer(miss="ABORTED"))

    assert unclaimed.judge(0.0, failed=False) == ReadOutcome.READ_OUTCOME_LATE


# -- the claim is given back once ------------------------------------------------------------------------------------


def test_closing_gives_the_claim_back_once() -> None:
    ended = reading()

    assert ended.close() is ended.claim
    assert ended.close() is None
    assert ended.stage is Stage.OVER


def test_a_turn_that_is_closed_before_its_answer_leaves_the_claim_to_who_brings_it() -> None:
    ended = turn()

    assert ended.close() is None
    assert not ended.settle(claimed(512))
    assert ended.close() is None


def test_closing_without_a_claim_gives_none() -> None:
    ended = turn()
    ended.settle(Answer(miss="NO_LEASE"))

    assert ended.close() is None


def race(raced: Turn, answer: Answer) -> tuple[bool, Claim | None]:
    """Answers a turn on another thread while closing it on this one."""
    start, settled = threading.Barrier(2), []

    def link() -> None:
        start.wait()
        settled.append(raced.settle(answer))

    thread = threading.Thread(target=link)
    thread.start()
    start.wait()
    closed = raced.close()
    thread.join()
    return settled[0], closed


def test_of_answer_and_close_exactly_one_has_the_claim() -> None:
    for _ in range(200):
        answer = claimed(512)

        settled, closed = race(turn(), answer)

        assert settled == (closed is answer.claim)


# -- what is told ----------------------------------------------------------------------------------------------------


def test_the_report_adds_up_to_the_prompt() -> None:
    read = reading(512, local=128)

    report = read.report
    assert (report.prompt_tokens, report.local_tokens, report.reused_tokens) == (1000, 128, 512)
    assert report.computed_tokens == 360
    assert report.miss_reason == ""


@pytest.mark.parametrize(
    ("answer", "local", "why"),
    [
        (Answer(miss="NO_LEASE"), 0, "NO_LEASE"),
        (claimed(512), 512, "FOUND_LOCALLY"),
        (claimed(512), 480, "BELOW_THRESHOLD"),
        (claimed(0), 0, "NO_MATCH"),
    ],
)
def test_the_report_says_why_nothing_was_read(answer: Answer, local: int, why: str) -> None:
    missed = turn()
    missed.settle(answer)
    missed.offer(local, THRESHOLD, 0.0)

    missed.used(local, 0)

    assert missed.report.miss_reason == why


@pytest.mark.parametrize(("conversation", "why"), [("c", "NOT_BIDIRECTIONAL"), ("", "")])
def test_an_engine_of_one_direction_says_so_where_there_was_something_to_reuse(conversation: str, why: str) -> None:
    missed = turn(Source.NOTHING)
    missed.terms.conversation.conversation_id = conversation

    missed.used(0, 0)

    assert missed.report.miss_reason == why


def test_decode_reports_no_miss() -> None:
    parked = turn(Source.PREFILL)
    parked.settle(Answer(miss="PREFILL_FAILED"))

    parked.used(0, 0)

    assert parked.report.miss_reason == ""


def test_a_lease_that_the_prompt_covers_whole_is_the_parent_of_the_next() -> None:
    grown = turn()
    grown.settle(claimed(1000, held=1000))

    assert grown.parent_lease_id == "l"


def test_a_lease_that_the_prompt_leaves_is_no_parent() -> None:
    branched = turn()
    branched.settle(claimed(512, held=1000))

    assert branched.parent_lease_id == ""


def test_decode_names_the_parent_that_prefill_found() -> None:
    read = turn(Source.PREFILL)
    read.settle(claimed(1000))

    assert read.parent_lease_id == "p"
    assert turn(Source.PREFILL).parent_lease_id == ""
