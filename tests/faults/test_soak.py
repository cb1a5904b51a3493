"""A short soak: every part is harmed once while conversations go on."""

from pathlib import Path

from kvlease.sim.conversations.plan import Plan
from tests.faults import troubles
from tests.faults.soak import ENGINE, soak
from tests.faults.verdict import REUSE_LATE
from tests.faults.world import Size

ACTS = (troubles.crash, troubles.lose_answers, troubles.abort, troubles.kill_router)


async def test_conversations_go_on_whatever_fails(tmp_path: Path) -> None:
    plan = Plan(
        conversations=1000,
        concurrent=20,
        think=1.0,
        duration=24.0,
        aborts=0.05,
        tools=0.1,
        patience=60.0,
    )

    verdict = await soak(plan, Size(2, 3, ENGINE, ttl=8.0), tmp_path, ACTS, gap=1.0, warm=3.0)

    broken = [rule for rule in verdict.broken if rule != REUSE_LATE]  # a share of few turns says little
    assert broken == [], verdict.figures
    assert verdict.figures["faults"] >= len(ACTS)
