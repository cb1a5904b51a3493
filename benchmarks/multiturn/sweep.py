"""The sweep: conversations of growing length, leg after leg in turn, each last prompt timed as its client sees it."""

import asyncio
import itertools
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import aiohttp

from benchmarks.multiturn.conversations import Conversation
from benchmarks.multiturn.counters import NOTHING, Counters, Work, look, work_since
from benchmarks.multiturn.drivers import Ask, Driver, EndpointDriver, StockDriver
from benchmarks.multiturn.likeness import difference
from benchmarks.multiturn.requests import Answer, Prompt
from benchmarks.multiturn.results import Turn
from benchmarks.multiturn.stacks import Stack

RECOMPUTE = "recompute"
_EDITED = 8  # which token of a prompt is another


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked. Lengths in tokens, times in seconds."""

    lengths: Sequence[int]
    rounds: Mapping[str, int]  # of each leg
    turns: int
    message: int
    answer: int
    think: float  # between two turns
    concurrency: int
    seed: str

    def rounds_of(self, leg: str) -> int:
        return self.rounds.get(leg, max(self.rounds.values()))

    def conversation(self, stack: Stack, length: int, *, round_number: int, number: int) -> Conversation:
        return Conversation(
            length,
            self.turns,
            self.message,
            self.answer,
            (stack.first_token, stack.last_token),
            f"{self.seed} {round_number} {number}",
        )


@dataclass(frozen=True, slots=True)
class Leg:
    """One way to hold conversations on one stack."""

    name: str
    stack: Stack
    driver: Driver
    alone: Driver | None = None  # asks decode alone, which has a prefix cache

    @property
    def reuses(self) -> bool:
        return self.name != RECOMPUTE


def session() -> aiohttp.ClientSession:
    """Connections are kept, as many as are wanted, and no answer is given up."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None), read_bufsize=1 << 20
    )


def legs_of(stack: Stack, http: aiohttp.ClientSession) -> list[Leg]:
    """Every stack serves two: the prompt computed anew, and what it can reuse."""
    drivers: list[Driver] = [
        EndpointDriver(http, stack.gateway, stack.model, named=reuses)
        if stack.gateway
        else StockDriver(http, stack.prefill, stack.decode, stack.model, reads=reuses)
        for reuses in (False, True)
    ]
    alone = EndpointDriver(http, stack.decode, stack.model, named=False) if stack.decode else None
    return [Leg(name, stack, driver, alone) for name, driver in zip((RECOMPUTE, stack.name), drivers, strict=True)]


def order(legs: Sequence[Leg], plan: Plan) -> Iterator[tuple[int, int, Leg]]:
    """Round, length and leg, legs alternating; who goes first changes from length to length."""
    for round_number in range(max(map(plan.rounds_of, (leg.name for leg in legs)))):
        for place, length in enumerate(plan.lengths):
            shift = (round_number + place) % len(legs)
            for leg in (*legs[shift:], *legs[:shift]):
                if round_number < plan.rounds_of(leg.name):
                    yield round_number, length, leg


async def sweep(
    legs: Sequence[Leg], plan: Plan, *, add: Callable[[Turn | dict[str, Any]], None], say: Callable[[str], None]
) -> None:
    """Holds all conversations of a plan, after some that are not told of: they make connections and warm engines."""
    for leg, length in itertools.product(legs, sorted({min(plan.lengths), max(plan.lengths)})):
        say(f"warming up {leg.name} of {leg.stack.name} at {length} tokens")
        await hold(leg, plan, length, round_number=-1)
    for leg in legs:
        if not leg.reuses:
            add(await control(leg, plan))
    planned = list(order(legs, plan))
    for number, (round_number, length, leg) in enumerate(planned, 1):
        for turn in await hold(leg, plan, length, round_number=round_number):
            add(turn)
        say(f"[{number}/{len(planned)}] {_told(turn)}")
    for leg in legs:  # last: they leave decode's pool in an order that no leg would
        if leg.alone and not leg.reuses:
            for length in sorted(set(plan.lengths)):
                add(await split(leg.alone, leg.stack, plan, length))


async def control(leg: Leg, plan: Plan) -> dict[str, Any]:
    """How much log-probabilities differ when nothing does, and when one early token of the prompt does."""
    conversation = replace(plan, turns=1).conversation(leg.stack, min(plan.lengths), round_number=0, number=-1)
    prompt = conversation.said(1)
    edited = [*prompt[:_EDITED], conversation.tokens[0], *prompt[_EDITED + 1 :]]
    first, again, other = [
        await leg.driver.turn(Ask(f"control-{uuid.uuid4().hex}", Prompt(said), plan.answer, streamed=True))
        for said in (prompt, prompt, edited)
    ]
    return {
        "kind": "control",
        "stack": leg.stack.name,
        "again": difference(first, again),
        "edited": difference(first, other),
    }


async def split(alone: Driver, stack: Stack, plan: Plan, length: int) -> dict[str, Any]:
    """How much log-probabilities differ by splitting a prompt's computation, with nothing read from elsewhere.

    One engine computes the prompt at once, and after its history, which its own prefix cache holds.
    """
    prompt = replace(plan, turns=1).conversation(stack, length, round_number=0, number=-1).said(1)
    once, twice = f"split-{uuid.uuid4().hex}", f"split-{uuid.uuid4().hex}"
    whole, _, after = [
        await alone.turn(Ask(name, Prompt(said), plan.answer, streamed=True))
        for name, said in ((once, prompt), (twice, prompt[: -plan.message]), (twice, prompt))
    ]
    return {
        "kind": "split",
        "stack": stack.name,
        "input_tokens": length,
        "cached_tokens": after.cached_tokens,
        "apart": difference(whole, after),
    }


async def hold(leg: Leg, plan: Plan, length: int, *, round_number: int) -> list[Turn]:
    """Holds as many conversations at once as the plan says, turn by turn together; gives all their turns."""
    conversations = [
        plan.conversation(leg.stack, length, round_number=round_number, number=number)
        for number in range(plan.concurrency)
    ]
    names = [f"{leg.name}-{length}-{round_number}-{uuid.uuid4().hex}" for _ in conversations]
    prompts: list[list[int]] = [[] for _ in conversations]
    answers: list[Answer] = [Answer() for _ in conversations]
    held: list[Turn] = []
    for turn in range(1, plan.turns + 1):
        await asyncio.sleep(plan.think if turn > 1 else 0)
        prompts = [c.prompt(turn, p, a.tokens) for c, p, a in zip(conversations, prompts, answers, strict=True)]
        asks = [
            Ask(name, Prompt(prompt), plan.answer, streamed=turn == plan.turns)
            for name, prompt in zip(names, prompts, strict=True)
        ]
        answers, works = await _ask(leg, asks, reads=leg.reuses and turn > 1)
        held += [
            _seen(leg, plan, ask, answer, works, turn=turn, round_number=round_number)
            for ask, answer in zip(asks, answers, strict=True)
        ]
    return held


async def _ask(leg: Leg, asks: Sequence[Ask], *, reads: bool) -> tuple[list[Answer], tuple[Work, Work]]:
    """Asks all at once; gives the answers, and what prefill and decode did meanwhile, as far as they are known."""
    urls, count = (leg.stack.prefill, leg.stack.decode), len(asks)
    if not all(urls):
        return await asyncio.gather(*map(leg.driver.turn, asks)), (NOTHING, NOTHING)
    before: list[Counters] = [await look(url) for url in urls]
    answers = await asyncio.gather(*map(leg.driver.turn, asks))
    prefill = await work_since(urls[0], before[0], requests=count, reads=count if reads else 0)
    decode = await work_since(urls[1], before[1], requests=0, reads=count)  # a client that left is not counted
    return answers, (prefill, decode)


def _seen(
    leg: Leg, plan: Plan, ask: Ask, answer: Answer, works: tuple[Work, Work], *, turn: int, round_number: int
) -> Turn:
    prefill, decode = works
    share = plan.concurrency
    return Turn(
        stack=leg.stack.name,
        leg=leg.name,
        round=round_number,
        conversation_id=ask.conversation,
        turn=turn,
        turns=plan.turns,
        concurrency=plan.concurrency,
        input_tokens=len(ask.prompt.tokens),
        reused_tokens=prefill.read_tokens // share,
        ttft_ms=answer.ttft * 1e3 if ask.streamed else None,
        elapsed_ms=answer.elapsed * 1e3,
        prefill_ms=prefill.total * 1e3 / share,
        prefill_queued_ms=prefill.queued * 1e3 / share,
        prefill_computing_ms=prefill.computing * 1e3 / share,
        kv_transfer_ms=prefill.reading * 1e3 / share,
        kv_bytes=prefill.read_bytes / share,
        decode_transfer_ms=decode.reading * 1e3 / share,
        decode_kv_bytes=decode.read_bytes / share,
        decode_queued_ms=decode.queued * 1e3 / share,
        decode_computing_ms=decode.computing * 1e3 / share,
        tokens=answer.tokens,
        logprobs=answer.logprobs,
        alternatives=answer.alternatives,
    )


def _told(turn: Turn) -> str:
    ttft = f"TTFT {turn.ttft_ms:.0f} ms, " if turn.ttft_ms is not None else ""
    return (
        f"{turn.leg} of {turn.stack} at {turn.input_tokens} tokens: {ttft}"
        f"prefill {turn.prefill_ms:.0f} ms with {turn.kv_transfer_ms:.0f} ms of transfer, {turn.reused_tokens} reused"
    )
