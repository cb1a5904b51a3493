"""What Prometheus gets from a registry."""

import asyncio

from prometheus_client import CollectorRegistry, generate_latest

from kvlease.registry.metrics import Metrics
from kvlease.registry.rules import Rules
from tests.registry.stores import MemoryWorlds
from tests.registry.world import CHAT


async def test_leases_and_engines_are_told_as_they_are_and_were() -> None:
    world, registry = MemoryWorlds()(Rules()), CollectorRegistry()
    now = 100.0
    metrics = Metrics(world.store, registry, lambda: now)
    following = asyncio.create_task(metrics.follow())
    await world.settle()
    hand = await world.engine("d0", blocks=50)
    await hand.grant("l1", "some text")
    await hand.grant("l2", "another one", conversation=CHAT._replace(conversation_id="other"))
    await world.settle()
    now += 10.0
    await world.store.end_conversation(CHAT)
    await hand.beat(freed=("l1",))
    await world.settle()

    await metrics.look()
    following.cancel()

    told = generate_latest(registry).decode().splitlines()
    pinned = 10 * (len("some text") + len("another one"))
    for line in (
        'kvlease_registry_engine_leases{engine="d0"} 1.0',
        'kvlease_registry_engine_blocks{engine="d0"} 50.0',
        'kvlease_registry_leases{kind="decode",state="live"} 1.0',
        'kvlease_registry_granted_total{kind="decode"} 2.0',
        'kvlease_registry_retired_total{kind="decode",reason="ended"} 1.0',
        f"kvlease_registry_pinned_token_seconds_total {pinned}.0",
        f"kvlease_registry_wasted_token_seconds_total {10 * len('some text')}.0",
        "kvlease_registry_reclaim_seconds_count 1.0",
    ):
        assert line in told
