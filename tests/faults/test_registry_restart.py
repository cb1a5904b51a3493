"""The registry is killed and started again while conversations go on."""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from kvlease.local import model
from kvlease.sim.conversations.driver import Driver
from kvlease.sim.conversations.plan import Plan
from kvlease.sim.conversations.record import Outcome, Record, reuse
from tests.conftest import Seen
from tests.e2e.stack import Stack, tokens
from tests.faults.simulated import HOLD

KEPT = 40  # conversations that are idle meanwhile
BEFORE, AFTER = 1.5, 4.0  # seconds of conversations before the registry is killed, and after it is back


def load(away: float) -> Plan:
    """Conversations that go on for long enough."""
    return Plan(conversations=10_000, concurrent=20, think=0.3, ramp=0.5, duration=BEFORE + away + AFTER, patience=60.0)


@pytest.mark.case(18)
async def test_no_request_fails_and_all_leases_are_back(stack: Stack, seen: Seen) -> None:
    names = [uuid.uuid4().hex for _ in range(KEPT)]
    await asyncio.to_thread(_keep, stack, names)
    records: list[Record] = []
    driver = Driver(load(0.0), f"http://{stack.gateway.address}", model=model.NAME, tell=records.append)
    going_on = asyncio.create_task(driver.run())
    await asyncio.sleep(BEFORE)

    await asyncio.to_thread(stack.registry.kill)
    killed = driver.now()
    await asyncio.to_thread(stack.registry.start)
    listens = time.monotonic()
    await _until(lambda: asyncio.to_thread(_kept, stack, names))
    took, back = time.monotonic() - listens, driver.now()

    await going_on
    await asyncio.to_thread(stack.settle, *names)
    outcomes = Counter(record.outcome for record in records)
    again = reuse(record for record in records if record.reusable_since > back)
    seen(
        f"{len(records)} turns, {outcomes[Outcome.OK]} right; away for {back - took - killed:.1f} s; "
        f"{KEPT} leases back {took:.2f} s after it listened; of later KV {again or 0:.0%} reused"
    )
    assert set(outcomes) == {Outcome.OK}


@pytest.mark.case(18)
async def test_no_request_fails_though_it_is_away_for_longer_than_sessions_last(stack: Stack, seen: Seen) -> None:
    away, records = HOLD + 1.0, list[Record]()
    driver = Driver(load(away), f"http://{stack.gateway.address}", model=model.NAME, tell=records.append)
    going_on = asyncio.create_task(driver.run())
    await asyncio.sleep(BEFORE)

    await asyncio.to_thread(stack.registry.kill)
    await asyncio.sleep(away)
    await asyncio.to_thread(stack.registry.start)
    await _until(lambda: asyncio.to_thread(_registered, stack))
    back = driver.now()

    await going_on
    outcomes = Counter(record.outcome for record in records)
    again = reuse(record for record in records if record.reusable_since > back)
    seen(f"away for {away:g} s: {len(records)} turns, {outcomes[Outcome.OK]} right; then {again or 0:.0%} reused")
    assert set(outcomes) == {Outcome.OK}


def _keep(stack: Stack, names: list[str]) -> None:
    for name in names:
        stack.complete(tokens(200), name)
        stack.leased(name)
        stack.client.renew(name, ttl=300)
    stack.renew(*names, ttl=300)


def _registered(stack: Stack) -> bool:
    return sum(engine.healthy for engine in stack.client.list_engines()) == len(stack.engines)


def _kept(stack: Stack, names: list[str]) -> bool:
    return set(names) <= {lease.conversation_id for lease in stack.client.list_leases()}


async def _until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await holds():  # noqa: ASYNC110 - another process is asked
            await asyncio.sleep(0.02)
