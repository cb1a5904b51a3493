"""What an engine has to do with while its steps are timed."""

import base64
import time
from dataclasses import dataclass
from typing import Any

from benchmarks.step.engine import PROMPT, Engine
from kvlease.v1.lease_pb2 import ConversationKey, EngineRef
from kvlease.v1.router_pb2 import RouteMode, TicketTerms

RUNNING = 32  # requests that decode a token in each step
WAITING = 64
CONVERSATIONS = 1000
MOST_LEASES = 4 * CONVERSATIONS  # the registry keeps so many branches of each
OTHER = EngineRef(engine_id="other", incarnation="1")
NOBODY, DECODE, PREFILL = "nobody", "decode", "prefill"


@dataclass(frozen=True, slots=True)
class Scene:
    """So many leases are held, and requests wait for their tickets: on decode for prefill, on prefill for a claim."""

    leases: int
    waiting: str


def play(engine: Engine, scene: Scene, *, ours: bool, running: int = RUNNING) -> None:
    """Brings an engine into a scene. Stock holds no leases, and what waits there waits for its read."""
    if ours:
        lease(engine, scene.leases)
        while len(engine.leasing._link._tasks) > 1:  # noqa: SLF001 - all but its session: leases are still asked for
            time.sleep(0.01)
    for number in range(running):
        engine.add([number % 4096] * 64, words=100_000)
    for number in range(WAITING if scene.waiting != NOBODY else 0):
        # prompts begin alike, as system prompts do: the prefix cache is searched in vain until there
        prompt = [7] * 512 + [number + 1] * (PROMPT - 512)
        engine.add(prompt, _ticket(engine, scene.waiting, number) if ours else _handle(number), words=4)
    for _ in range(20):
        engine.step()


def lease(engine: Engine, count: int, *, first: int = 0) -> None:
    """Answers so many requests of conversations, whose KV is kept then."""
    for number in range(first, first + count):
        engine.add([number % 4096, number // 4096, *range(128)], _ticket(engine, "alone", number), words=1)
    engine.run()


def _ticket(engine: Engine, leg: str, number: int) -> dict[str, Any]:
    me = engine.leasing._engine.ref  # noqa: SLF001 - which engine a ticket is for
    both = RouteMode.ROUTE_MODE_PREFILL_DECODE
    terms = TicketTerms(
        ticket_id=f"{leg}-{number}",
        conversation=ConversationKey(tenant="t", conversation_id=f"{leg}-{number % CONVERSATIONS}"),
        mode=both if leg in {DECODE, PREFILL} else RouteMode.ROUTE_MODE_DECODE_ONLY,
        prefill={DECODE: OTHER, PREFILL: me}.get(leg),
        decode=OTHER if leg == PREFILL else me,
    )
    terms.lifetime.FromSeconds(3600)
    return {
        "kvlease_ticket": f"kvt1.{base64.urlsafe_b64encode(terms.SerializeToString()).decode().rstrip('=')}.c2lnbmVk"
    }


def _handle(number: int) -> dict[str, Any]:
    """What a stock proxy sends to decode."""
    return {
        "do_remote_prefill": True,
        "remote_engine_id": "other",
        "remote_request_id": f"other-{number}",
        "remote_host": "127.0.0.1",
        "remote_port": 1,
        "tp_size": 1,
        "remote_block_ids": [list(range(PROMPT // 16))],
    }
