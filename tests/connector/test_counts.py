"""What an engine counts is told once, and nothing is told of a step in which nothing happened."""

from kvlease.connector.counts import MOST_REASONS, Counts, Delta, merge
from kvlease.connector.turn import Source, Turn
from kvlease.v1.lease_pb2 import LeaseKind
from kvlease.v1.registry_pb2 import ReadOutcome
from tests.connector.requests import terms


def turn(source: Source = Source.BRANCH) -> Turn:
    """A turn of 1000 tokens, none of which was scheduled yet."""
    return Turn(
        request_id="r",
        ticket="t",
        terms=terms(),
        source=source,
        keeps=LeaseKind.LEASE_KIND_DECODE,
        chain=lambda: None,  # type: ignore[arg-type, return-value]
        prompt_tokens=1000,
        deadline=0.0,
    )


def test_nothing_new_gives_nothing() -> None:
    counts = Counts()
    assert counts.take(0, 0) is None

    assert counts.take(1, 23) == Delta(counts={}, seconds={}, levels={"leases": 1, "leased_blocks": 23})
    assert counts.take(1, 23) is None


def test_a_turn_counts_where_its_kv_came_from_and_why_not_more() -> None:
    counts, reader, missed = Counts(), turn(), turn()
    reader.used(100, 600)
    reader.report.added_wait.FromMilliseconds(7)
    missed.used(100, 0)
    missed.report.miss_reason = "NO_LEASE"

    counts.ended(reader)
    counts.ended(missed)

    new = counts.take(0, 0)
    assert new is not None
    assert new["counts"] == {
        "prompt_tokens": {"reused": 600, "local": 200, "computed": 1200},
        "misses": {"NO_LEASE": 1},
    }
    assert new["seconds"] == {"added_wait_seconds": [0.007, 0.0]}
    assert counts.take(0, 0) is None


def test_what_decode_has_from_prefill_is_not_called_reuse() -> None:
    counts, read = Counts(), turn(Source.PREFILL)
    read.used(0, 900)

    counts.ended(read)

    new = counts.take(0, 0)
    assert new is not None
    assert new["counts"] == {"prompt_tokens": {"received": 900, "computed": 100}}


def test_a_turn_that_was_never_scheduled_counts_nothing() -> None:
    counts = Counts()

    counts.ended(turn())

    assert counts.take(0, 0) is None


def test_labels_are_few_whatever_the_registry_says() -> None:
    counts = Counts()

    for i in range(MOST_REASONS + 10):
        counts.freed(f"reason {i}")

    new = counts.take(0, 0)
    assert new is not None
    freed = new["counts"]["leases_freed"]
    assert len(freed) == MOST_REASONS + 1
    assert freed["OTHER"] == 10


def test_deltas_add_up_and_levels_are_the_last() -> None:
    counts = Counts()
    counts.read(ReadOutcome.READ_OUTCOME_USED)
    counts.reclaimed(0.5)
    sum_ = counts.take(2, 40)
    assert sum_ is not None
    counts.read(ReadOutcome.READ_OUTCOME_USED)
    counts.freed("RETIRE_REASON_EXPIRED")
    new = counts.take(1, 20)
    assert new is not None

    merge(sum_, new)

    assert sum_ == Delta(
        counts={"claims": {"USED": 2}, "leases_freed": {"EXPIRED": 1}},
        seconds={"reclaim_seconds": [0.5]},
        levels={"leases": 1, "leased_blocks": 20},
    )
