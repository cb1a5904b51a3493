"""What is done to the processes of a world while conversations go on: one fault after the other, chosen by chance."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import aiohttp

from tests.faults.world import Sim, World, tell


@dataclass(frozen=True, slots=True)
class Trouble:
    """A fault that was there from *begun* to *ended*, in seconds since the run began."""

    kind: str
    victim: str
    begun: float
    ended: float


@dataclass(frozen=True, slots=True)
class Scene:
    """What a fault needs: the world, a way to tell engines, and dice."""

    world: World
    http: aiohttp.ClientSession
    dice: random.Random

    def engine(self, *roles: str) -> Sim:
        """Chooses an engine of one of these roles; of any if none is named."""
        return self.dice.choice([sim for sim in self.world.sims if not roles or sim.role in roles])


Act: TypeAlias = Callable[[Scene], Awaitable[str]]
"""Does harm, returns once it is over, and tells to whom it was."""


async def crash(scene: Scene) -> str:
    """An engine is killed, and another incarnation started on its port."""
    sim, away = scene.engine(), scene.dice.uniform(0.2, 3.0)
    await tell(scene.http, sim, "crash", restart_after=away)
    await asyncio.sleep(away)
    return sim.name


async def freeze(scene: Scene) -> str:
    """An engine stops for a while, now and then for longer than its session lasts."""
    return await _for_a_while(scene, "freeze", scene.dice.choice([1.0, 3.0, 5.0, 14.0]))


async def cut_off(scene: Scene) -> str:
    """An engine is cut off from registry and router, now and then for longer than its session lasts."""
    return await _for_a_while(scene, "control_cut", scene.dice.choice([0.5, 2.0, 5.0, 14.0]))


async def silence(scene: Scene) -> str:
    """No heartbeat of an engine gets through."""
    return await _for_a_while(scene, "hold_heartbeats", scene.dice.uniform(1.0, 6.0))


async def lose_answers(scene: Scene) -> str:
    """The next answers of the control plane to an engine are lost."""
    sim = scene.engine()
    await tell(scene.http, sim, "faults", lose_answers=10)
    await asyncio.sleep(2.0)
    await tell(scene.http, sim, "faults", lose_answers=0)
    return sim.name


async def slow_control(scene: Scene) -> str:
    """An engine's calls to the control plane take longer than a request may wait."""
    return await _while(scene, scene.engine(), "control_delay", scene.dice.uniform(0.1, 1.0))


async def slow_reads(scene: Scene) -> str:
    """An engine's reads take longer, now and then longer than a claim lasts without renewal."""
    return await _while(scene, scene.engine(), "read_delay", scene.dice.choice([0.3, 1.5, 6.0]))


async def black_hole(scene: Scene) -> str:
    """An engine's reads never end."""
    return await _for_a_while(scene, "black_hole", 2.0)


async def errors(scene: Scene) -> str:
    """An engine answers 500, and drops connections while it computes prompts."""
    sim = scene.engine()
    await tell(scene.http, sim, "faults", fail_next=5, drop_next=5)
    await asyncio.sleep(2.0)
    await tell(scene.http, sim, "faults", fail_next=0, drop_next=0)
    return sim.name


async def abort(scene: Scene) -> str:
    """A prefill engine gives all of its requests up."""
    sim = scene.engine("prefill")
    await tell(scene.http, sim, "abort")
    return sim.name


async def kill_registry(scene: Scene) -> str:
    """The registry is killed, and started again at once or after a while."""
    return await _restart(scene, "registry", scene.dice.choice([0.0, 0.0, 2.0, 15.0]))


async def kill_router(scene: Scene) -> str:
    """The router is killed, and started again."""
    return await _restart(scene, "router", scene.dice.choice([0.0, 2.0]))


async def stop_registry(scene: Scene) -> str:
    """The registry is frozen: connections stay, nothing is answered."""
    process, away = scene.world.processes["registry"], scene.dice.choice([1.0, 4.0])
    process.pause()
    await asyncio.sleep(away)
    process.resume()
    return "registry"


ALL: Sequence[Act] = (
    crash,
    crash,
    freeze,
    freeze,
    cut_off,
    cut_off,
    silence,
    lose_answers,
    slow_control,
    slow_reads,
    black_hole,
    errors,
    abort,
    kill_registry,
    kill_router,
    stop_registry,
)


async def troubles(
    scene: Scene, acts: Sequence[Act], now: Callable[[], float], *, first: float, last: float, gap: float
) -> AsyncIterator[Trouble]:
    """Yields faults as they are over: the first after *first* seconds, then with *gap* between them, until *last*.

    All kinds come before one comes again.
    """
    await asyncio.sleep(first)
    while True:
        for act in scene.dice.sample(acts, len(acts)):
            if now() >= last:
                return
            begun = now()
            victim = await act(scene)
            yield Trouble(act.__name__, victim, begun, now())
            await asyncio.sleep(gap)


async def _for_a_while(scene: Scene, fault: str, length: float) -> str:
    sim = scene.engine()
    await tell(scene.http, sim, "faults", **{fault: length})
    await asyncio.sleep(length)
    return sim.name


async def _while(scene: Scene, sim: Sim, fault: str, value: float) -> str:
    await tell(scene.http, sim, "faults", **{fault: value})
    await asyncio.sleep(3.0)
    await tell(scene.http, sim, "faults", **{fault: 0})
    return sim.name


async def _restart(scene: Scene, name: str, away: float) -> str:
    process = scene.world.processes[name]
    await asyncio.to_thread(process.kill)
    await asyncio.sleep(away)
    process.start()
    await scene.world.listens(name)  # until then it is still away
    return name
