"""Simulated engines that fail, several of a kind: conversations go on, answers are right, and reuse comes back."""

from collections import Counter
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from tests.conftest import Seen
from tests.sim.stack import Stack, running, until
from tests.sim.test_reuse import SYSTEM, Talk, nothing_wrong, reuses, user
from tests.sim.test_troubles import crash, holder, trouble


@pytest.fixture
async def two() -> AsyncIterator[Stack]:
    """One prefill and two decode engines."""
    async with running(decode=2) as made:
        yield made


@pytest.mark.case(8)
async def test_a_turn_that_prefill_has_cached_is_answered_without_its_decode(seen: Seen) -> None:
    async with running(decode=2, prefix_caching=True) as stack:
        talk = Talk(stack, "c")
        await talk.say("One.")
        await crash(stack, holder(stack), restart_after=None)
        del talk.messages[1:]

        cached = await talk.say("One.")

        assert nothing_wrong(stack)
    seen(f"answered; {cached} tokens were in prefill's own cache")
    assert cached > 0


@pytest.mark.case(10)
@pytest.mark.parametrize("how", ["nobody at its address", "killed", "silent"])
async def test_a_read_that_fails_is_computed_and_the_next_one_read(two: Stack, how: str, seen: Seen) -> None:
    talk = Talk(two, "c")
    await talk.say("One.")
    owner = holder(two)
    if how == "nobody at its address":
        two.fleet._wire.detach(owner.engine.connector._name)
    elif how == "killed":
        await crash(two, owner, restart_after=0.1)
    else:
        await trouble(two, two.prefill, black_hole=60)

    cached = await talk.say("Two.")

    await trouble(two, two.prefill, black_hole=0)
    if how == "nobody at its address":
        two.fleet._wire.attach(owner.engine.connector._name, owner.engine.connector)
    assert await reuses(talk)
    assert nothing_wrong(two)
    seen(f"owner {how}: answered, {cached} reused; then reused again")
    assert cached == 0


async def three_turns(stack: Stack) -> tuple[list[int], list[str]]:
    """Returns what was reused in each, and the gateway's count of misses."""
    talk = Talk(stack, "c")
    cached = [await talk.say(text) for text in ("One.", "Two.", "Three.")]
    assert nothing_wrong(stack)
    async with stack.http.get(f"{stack.url}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    name = "kvlease_gateway_misses_total"
    return cached, [line.removeprefix(name) for line in lines if line.startswith(name)]


@pytest.mark.case(11)
@pytest.mark.parametrize("side", ["prefill", "decode"])
async def test_engines_of_one_direction_serve_without_reuse(side: str, seen: Seen) -> None:
    with capture_logs() as logs:
        async with running(one_way=side) as stack:
            cached, misses = await three_turns(stack)
    said = [line for line in logs if "bidirectional" in line["event"]]
    seen(f"{side}: answered, {cached} reused; said {len(said)} time(s); misses: {', '.join(misses)}")
    assert not any(cached)
    assert misses
    assert len(said) == 1


@pytest.mark.case(17)
async def test_a_generation_that_fails_is_made_elsewhere(two: Stack, seen: Seen) -> None:
    broken = two.of("decode")[0]
    await trouble(two, broken, fail_next=2)

    for number in range(6):
        await Talk(two, f"c{number}").say("One.")

    assert nothing_wrong(two)
    left = broken.switches.left()["fail_next"]
    seen(f"one decode engine failed {2 - left:.0f} of 6 requests: all of them 200, the right answer")
    assert left < 2


@pytest.mark.case(17)
async def test_a_generation_that_fails_everywhere_is_no_200(two: Stack, seen: Seen) -> None:
    for engine in two.of("decode"):
        await trouble(two, engine, fail_next=10)
    body = {"model": "sim", "messages": [user("One.")], "stream": True}

    async with two.http.post(f"{two.url}/v1/chat/completions", json=body) as answer:
        seen(f"decode fails for good: {answer.status}")
        assert answer.status == 500
        assert (await answer.json())["error"]["message"]


@pytest.mark.case(33)
async def test_a_killed_decode_is_replaced_and_its_leases_stay_dead(two: Stack, seen: Seen) -> None:
    talk = Talk(two, "c")
    await talk.say("One.")
    owner = holder(two)
    dead = owner.engine
    await crash(two, owner, restart_after=0.05)

    cached = await talk.say("Two.")

    await until(lambda: owner.running and owner.engine is not dead and owner.engine.connector.link.connected)
    assert nothing_wrong(two)
    seen(f"answered by another, {cached} reused; the new start holds {owner.engine.connector.owner.leases} leases")
    assert cached == 0


@pytest.mark.case(36)
async def test_conversations_without_an_id_are_spread(seen: Seen) -> None:
    async with running(decode=4) as stack:
        for number in range(20):
            await stack.chat([SYSTEM, user(f"Question {number}.")], max_tokens=5)

        served = Counter({n: engine.engine.finished.total() for n, engine in enumerate(stack.of("decode"))})
    seen(f"served by each: {list(served.values())}")
    assert min(served.values()) >= 3


@pytest.mark.case(37)
async def test_usage_tells_what_prefill_did_not_compute(two: Stack, seen: Seen) -> None:
    talk = Talk(two, "c")
    await talk.say("One.")
    held = talk.total - 1

    cached = await talk.say("Two.")

    seen(f"{held} tokens were held: {cached} of {talk.total - 20} are said to be cached")
    assert cached == held
