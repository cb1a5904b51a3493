"""The idle leg: conversations of which every other one never returns, and what decode holds for them meanwhile."""

import asyncio
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.multiturn.conversations import Conversation
from benchmarks.multiturn.counters import USAGE, look, pool, work_since
from benchmarks.multiturn.drivers import Ask
from benchmarks.multiturn.requests import Prompt
from benchmarks.multiturn.sweep import Leg

_GAPS = (3.0, 5.0, 8.0, 13.0, 21.0, 34.0, 55.0, 89.0)  # seconds until a conversation returns, if it does
_MESSAGE, _ANSWER = 64, 8  # tokens
_LOOK = 0.25  # seconds between two looks at decode's pool


@dataclass(frozen=True, slots=True)
class Scene:
    """What happens, in seconds of the real thing; `haste` is by how much faster it is played."""

    conversations: int
    length: int  # tokens of the first prompt
    lasts: float
    haste: float

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.haste)


async def idle(leg: Leg, scene: Scene, *, add: Callable[[dict[str, Any]], None], say: Callable[[str], None]) -> None:
    """Plays the scene: conversations begin one after another in its first half, and every other one returns once."""
    prefill = leg.stack.prefill
    decode = await asyncio.to_thread(pool, leg.stack.decode)
    before = await look(prefill)
    returning = scene.conversations // 2
    async with asyncio.TaskGroup() as group:
        pinned = group.create_task(_watch(leg, scene, decode.tokens))
        for number in range(scene.conversations):
            gap = _GAPS[number // 2 % len(_GAPS)] if number % 2 else None
            group.create_task(_converse(leg, scene, number, gap))
            await scene.sleep(scene.lasts / 2 / scene.conversations)
    done = await work_since(prefill, before, requests=scene.conversations + returning, reads=0)
    add(
        {
            "kind": "idle",
            "stack": leg.stack.name,
            "leg": leg.name,
            "conversations": scene.conversations,
            "returned": returning,
            "reused": done.reads,
            "input_tokens": scene.length,
            "seconds": scene.lasts,
            "haste": scene.haste,
            "pinned_token_seconds": pinned.result(),
        }
    )
    say(f"{leg.name}: {pinned.result():.3g} token-seconds pinned, {done.reads} of {returning} returns reused")


async def _converse(leg: Leg, scene: Scene, number: int, gap: float | None) -> None:
    """Holds one turn, and after a gap a second; None: it never returns."""
    stack = leg.stack
    length = scene.length + _MESSAGE + _ANSWER
    said = Conversation(length, 2, _MESSAGE, _ANSWER, (stack.first_token, stack.last_token), f"idle {number}")
    name = f"idle-{uuid.uuid4().hex}"
    first = said.prompt(1, (), ())
    answer = await leg.driver.turn(Ask(name, Prompt(first), _ANSWER, streamed=False))
    if gap is not None:
        await scene.sleep(gap)
        again = said.prompt(2, first, answer.tokens)
        await leg.driver.turn(Ask(name, Prompt(again), _ANSWER, streamed=False))


async def _watch(leg: Leg, scene: Scene, tokens: int) -> float:
    """Adds up the tokens in use at decode over the scene, in token-seconds of the real thing."""
    ends = time.monotonic() + scene.lasts / scene.haste
    total, last = 0.0, time.monotonic()
    while last < ends:
        await asyncio.sleep(_LOOK)
        used = (await look(leg.stack.decode))[USAGE] * tokens
        now = time.monotonic()
        total += used * (now - last) * scene.haste
        last = now
    return total
