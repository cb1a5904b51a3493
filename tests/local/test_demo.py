"""What the demo tells of a turn."""

import math
import re
from dataclasses import replace

import pytest

from kvlease.client.types import PrefillReport
from kvlease.local import architecture
from kvlease.local.chat import Answer
from kvlease.local.conversation import questions
from kvlease.local.demo import NEXT, Run, Turn, told
from tests.docs.reading import ROOT


def a_run(text: str, *logprobs: float, reused: int = 0) -> Run:
    answer = Answer(text=text, logprobs=logprobs, prompt_tokens=100, cached_tokens=reused, ttft=0.02)
    report = PrefillReport(
        prompt_tokens=100,
        local_tokens=0,
        reused_tokens=reused,
        computed_tokens=100 - reused,
        miss_reason="" if reused else "NO_LEASE",
        kv_bytes=0,
        prefill_duration=0.01,
        added_wait=0.0,
    )
    return Run(answer, report, reads=int(reused > 0))


def test_the_difference_is_the_largest_of_all_tokens() -> None:
    turn = Turn(a_run("ab", -1.0, -2.0, reused=60), a_run("ab", -1.25, -2.5))

    assert turn.difference == 0.5


def test_other_tokens_differ_without_measure() -> None:
    assert Turn(a_run("ab", -1.0, -2.0), a_run("ac", -1.0, -2.0)).difference == math.inf


def test_a_row_says_what_was_reused_how_long_it_took_and_why_nothing_was() -> None:
    hit, miss = Turn(a_run("a", -1.0, reused=60), a_run("a", -1.0)), Turn(a_run("a", -1.0), a_run("a", -1.0))

    assert hit.row(2).split() == ["2", "100", "60", "10", "10", "20", "20", "1", "0.0e+00"]
    assert miss.row(1).split()[-1] == "NO_LEASE"


def test_people_are_told_what_was_reused_and_what_it_brought() -> None:
    slow = replace(a_run("a", -1.0), answer=replace(a_run("a", -1.0).answer, ttft=0.05))
    first, later = Turn(slow, slow), Turn(a_run("a", -1.0, reused=60), slow)

    assert told([first, later, later]) == (
        "2 of 3 turns read their history back from decode: 120 of their 200 prompt tokens were not computed, "
        "prefill took 10 ms instead of 10, and the first token came after 20 ms instead of 50: 2.5 times as fast."
    )


def test_people_are_not_told_that_it_was_faster_when_it_was_not() -> None:
    assert told([Turn(a_run("a", -1.0, reused=60), a_run("a", -1.0))]).endswith("no faster, on this machine.")


def test_what_to_try_next_is_what_readme_says() -> None:
    readme = (ROOT / "README.md").read_text()
    activate, command = re.findall("`(.+?)`", NEXT)
    (heading,) = re.findall('"(.+?)"', NEXT)

    assert f"`{activate}`" in readme
    assert f".venv/bin/{command} " in readme
    assert f"## {heading}\n" in readme


def test_the_conversation_is_long_enough_to_show_something_and_fits_the_model() -> None:
    said = list(questions())

    assert len(said) >= 4
    assert 2_000 < sum(map(len, said)) < architecture.CONTEXT
    assert all(question.isascii() for question in said)


def test_turns_are_compared_token_by_token() -> None:
    with pytest.raises(ValueError, match="zip"):
        _ = Turn(a_run("ab", -1.0), a_run("ab", -1.0, -2.0)).difference
