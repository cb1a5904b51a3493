"""The pressure leg: as many conversations are kept as decode's pool holds, then new ones come.

Stock pins every conversation for 480 s, whatever waits for memory. Waiting is bounded here: who gets no first token in
time is given up and counted.
"""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from benchmarks.multiturn.conversations import Conversation
from benchmarks.multiturn.counters import PREEMPTIONS, USAGE, look, pool
from benchmarks.multiturn.drivers import Ask
from benchmarks.multiturn.requests import Prompt
from benchmarks.multiturn.sweep import Leg

_ANSWER = 8  # tokens


async def press(
    leg: Leg,
    *,
    length: int,
    arrivals: int,
    patience: float,
    add: Callable[[dict[str, Any]], None],
    say: Callable[[str], None],
) -> None:
    """Times new conversations of *length* tokens while the pool is empty, fills it, and times as many again.

    *patience*: seconds that a new conversation may wait for its first token.
    """
    decode = await asyncio.to_thread(pool, leg.stack.decode)
    kept = decode.holds(length + _ANSWER)  # were all kept, no other would fit
    await _arrive(leg, length, "first of all", patience, during="warm-up")  # makes connections
    for number in range(arrivals):
        add(await _arrive(leg, length, f"empty {number}", patience, during="empty"))
    say(f"keeping {kept} conversations of {length} tokens at {leg.name}'s decode, whose pool is of {decode.tokens}")
    for number in range(kept):
        seen = await _arrive(leg, length, f"kept {number}", patience, during="filling", streamed=False)
        if not seen["answered"]:
            add(seen)
            break
    for number in range(arrivals):
        add(seen := await _arrive(leg, length, f"full {number}", patience, during="full"))
        say(f"{leg.name}: {seen['ttft_ms']:.0f} ms" if seen["answered"] else f"{leg.name}: nothing in {patience:g} s")


async def _arrive(
    leg: Leg, length: int, seed: str, patience: float, *, during: str, streamed: bool = True
) -> dict[str, Any]:
    """One new conversation, and how decode was when it came."""
    stack = leg.stack
    conversation = Conversation(length, 1, 0, 0, (stack.first_token, stack.last_token), seed)
    before = await look(stack.decode)
    ask = Ask(f"pressure-{uuid.uuid4().hex}", Prompt(conversation.said(1)), _ANSWER, streamed=streamed)
    ttft = None
    try:
        answer = await asyncio.wait_for(leg.driver.turn(ask), patience)
        ttft = answer.ttft if streamed else answer.elapsed
    except TimeoutError:
        pass  # counted below: nobody answered in time
    after = await look(stack.decode)
    return {
        "kind": "pressure",
        "stack": stack.name,
        "leg": leg.name,
        "during": during,
        "conversation_id": ask.conversation,
        "input_tokens": length,
        "answered": ttft is not None,
        "ttft_ms": None if ttft is None else ttft * 1e3,
        "kv_usage": before[USAGE],
        "preemptions": round(after[PREEMPTIONS] - before[PREEMPTIONS]),
    }
