"""The order of a sweep, and what is written of its turns."""

import argparse
from typing import Any

from benchmarks.multiturn import options
from benchmarks.multiturn.drivers import Ask
from benchmarks.multiturn.requests import Answer
from benchmarks.multiturn.results import Turn
from benchmarks.multiturn.stacks import Stack
from benchmarks.multiturn.sweep import Leg, Plan, hold, legs_of, order, session, split, sweep
from tests.benchmarks.engines import serving

ELSEWHERE = Stack("endpoint", "m", "", "", "http://elsewhere", 10, 90, {})


class Parrot:
    """Answers with as many tokens as are asked for."""

    def __init__(self) -> None:
        self.asked: list[Ask] = []

    async def turn(self, ask: Ask) -> Answer:
        self.asked.append(ask)
        return Answer([7] * ask.answer, [-0.5] * ask.answer, [{}] * ask.answer, ttft=0.1, elapsed=0.2)


def plan(*arguments: str) -> Plan:
    parser = argparse.ArgumentParser()
    options.add_plan(parser)
    return options.plan(parser.parse_args(["--think", "0s", "--message", "20", "--answer", "4", *arguments]))


def legs(*names: str) -> list[Leg]:
    return [Leg(name, ELSEWHERE, Parrot()) for name in names]


def test_legs_alternate_and_each_goes_first_in_turn() -> None:
    seen = [
        (length, leg.name) for _, length, leg in order(legs("a", "b"), plan("--lengths", "100,200", "--rounds", "1"))
    ]

    assert seen == [(100, "a"), (100, "b"), (200, "b"), (200, "a")]


def test_a_leg_may_have_fewer_rounds() -> None:
    planned = order(legs("a", "b"), plan("--lengths", "100", "--rounds", "a=1,b=3"))

    assert [(number, leg.name) for number, _, leg in planned] == [(0, "a"), (0, "b"), (1, "b"), (2, "b")]


async def test_the_last_prompt_of_a_conversation_is_timed_and_has_the_length() -> None:
    (leg,) = legs("endpoint")

    turns = await hold(leg, plan("--turns", "3"), 200, round_number=0)

    assert [(turn.turn, turn.input_tokens, turn.ttft_ms) for turn in turns] == [
        (1, 152, None),
        (2, 176, None),
        (3, 200, 100.0),
    ]
    assert len({turn.conversation_id for turn in turns}) == 1


async def test_conversations_at_the_same_time_are_different_ones() -> None:
    (leg,) = legs("endpoint")

    turns = await hold(leg, plan("--concurrency", "3", "--turns", "1"), 100, round_number=0)

    assert len({turn.conversation_id for turn in turns}) == 3
    asked = leg.driver.asked  # type: ignore[attr-defined]
    assert len({ask.prompt.tokens for ask in asked}) == 3


async def test_a_sweep_tells_of_all_but_its_warm_up() -> None:
    told: list[Any] = []

    await sweep(legs("recompute", "endpoint"), plan("--lengths", "100", "--rounds", "2"), add=told.append, say=print)

    assert [line for line in told if not isinstance(line, Turn)] == [
        {"kind": "control", "stack": "endpoint", "again": 0.0, "edited": 0.0}
    ]
    assert [turn.round for turn in told if isinstance(turn, Turn) and turn.turn == 2] == [0, 0, 1, 1]


async def test_decode_alone_computes_a_prompt_at_once_and_after_its_history() -> None:
    alone = Parrot()

    line = await split(alone, ELSEWHERE, plan("--message", "20"), 100)

    once, history, after = alone.asked
    assert (len(once.prompt.tokens), history.prompt.tokens) == (100, once.prompt.tokens[:80])
    assert after.prompt.tokens == once.prompt.tokens
    assert after.conversation == history.conversation != once.conversation
    assert (line["input_tokens"], line["cached_tokens"], line["apart"]) == (100, 0, 0.0)


async def test_what_engines_count_is_part_of_a_turn() -> None:
    async with serving("prefill", "decode") as (_, (prefill, decode)), session() as http:
        stack = Stack("stock", "m", prefill.url, decode.url, "", 10, 90, {})
        leg = legs_of(stack, http)[1]

        turns = await hold(leg, plan(), 200, round_number=0)

    assert [turn.prefill_ms for turn in turns] == [500.0, 500.0]
    assert leg.name == "stock"
