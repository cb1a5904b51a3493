"""What can happen to a world beside turns, as values that hypothesis draws and prints."""

from dataclasses import dataclass
from functools import partial
from typing import Protocol

from hypothesis import strategies as st

from tests.protocol import network
from tests.protocol.network import Weather
from tests.protocol.world import World


class Event(Protocol):
    """Something that happens."""

    def happen(self, world: World) -> None:
        """Lets it happen now."""


@dataclass(frozen=True)
class Storm:
    """Messages on some ways fare badly from now on."""

    ways: tuple[tuple[str, str], ...]
    weather: Weather

    def happen(self, world: World) -> None:
        for way in self.ways:
            world.network.set(*way, self.weather)


@dataclass(frozen=True)
class Calm:
    """Messages fare well again."""

    def happen(self, world: World) -> None:
        world.network.clear()


@dataclass(frozen=True)
class Pause:
    """A process stands still. When it goes on, it sees first what has come, or first what is late."""

    name: str
    seconds: float
    mail_first: bool

    def happen(self, world: World) -> None:
        for process in [process for process in world.timeline.processes if process.name == self.name]:
            process.pause()
            world.later(self.seconds, partial(process.resume, mail_first=self.mail_first))


@dataclass(frozen=True)
class Death:
    """An engine dies."""

    name: str

    def happen(self, world: World) -> None:
        if engine := world.engines.get(self.name):
            world.kill_engine(engine)


@dataclass(frozen=True)
class Replacement:
    """An engine is started anew; the one before is believed dead, and lives on for a while."""

    name: str
    lives: float

    def happen(self, world: World) -> None:
        before = world.engines.get(self.name)
        world.start_engine(self.name)
        if before:
            world.later(self.lives, partial(world.kill_engine, before))


@dataclass(frozen=True)
class Restart:
    """A service is gone for a while, and comes back empty."""

    name: str
    seconds: float

    def happen(self, world: World) -> None:
        if self.name == "registry":
            world.kill_registry()
            world.later(self.seconds, world.start_registry)
        else:
            world.kill_router()
            world.later(self.seconds, world.start_router)


@dataclass(frozen=True)
class Slowness:
    """An engine's steps take so much longer."""

    name: str
    step: float

    def happen(self, world: World) -> None:
        if engine := world.engines.get(self.name):
            engine.slow = self.step


@dataclass(frozen=True)
class Need:
    """An engine needs blocks back; all of its leases, as before a sleep, if *blocks* is 0."""

    name: str
    blocks: int

    def happen(self, world: World) -> None:
        if engine := world.engines.get(self.name):
            link = engine.connector.link
            engine.process.deliver(partial(link.beat, self.blocks) if self.blocks else link.release_all)


@dataclass(frozen=True)
class Leaving:
    """A client goes away."""

    which: int

    def happen(self, world: World) -> None:
        if turns := world.gateway.turns:
            world.gateway.leave(turns[self.which % len(turns)])


@dataclass(frozen=True)
class End:
    """An application ends a conversation."""

    chat: str

    def happen(self, world: World) -> None:
        world.gateway.end(self.chat)


@dataclass(frozen=True)
class Renewal:
    """An application asks for more time."""

    chat: str

    def happen(self, world: World) -> None:
        world.gateway.renew(self.chat)


ENGINES = st.sampled_from(["p0", "d0", "d1"])
CHATS = st.sampled_from(["a", "b"])
SPANS = st.sampled_from([0.2, 1.0, 3.0, 6.0, 13.0])
WEATHERS = st.sampled_from([network.CUT, network.SLOW, network.ROUGH, network.LATE])
_THERE = ENGINES.map(lambda name: ((name, "registry"),))
_BACK = ENGINES.map(lambda name: (("registry", name),))
_BOTH = ENGINES.map(lambda name: ((name, "registry"), ("registry", name)))
_ELSEWHERE: st.SearchStrategy[tuple[tuple[str, str], ...]] = st.sampled_from(
    [
        (("gateway", "router"),),
        (("router", "registry"),),
        (("gateway", "registry"),),
        (("p0", "router"), ("d0", "router")),
    ]
)

ends, renewals, leavings = st.builds(End, CHATS), st.builds(Renewal, CHATS), st.builds(Leaving, st.integers(0, 3))
needs, releases = st.builds(Need, ENGINES, st.integers(1, 4)), st.builds(Need, ENGINES, st.just(0))
slowness = st.builds(Slowness, ENGINES, st.sampled_from([0.3, 1.5, 0.0]))
long_pauses = st.builds(Pause, ENGINES, st.sampled_from([3.0, 6.0, 13.0]), st.booleans())
pauses = st.builds(Pause, ENGINES, SPANS, st.booleans())
service_pauses = st.builds(Pause, st.sampled_from(["registry", "registry", "router"]), SPANS, st.booleans())
deaths, replacements = st.builds(Death, ENGINES), st.builds(Replacement, ENGINES, SPANS)
restarts = st.builds(Restart, st.sampled_from(["registry", "registry", "router"]), st.sampled_from([0.0, 0.3, 3.0]))
quick_restarts = st.builds(Restart, st.just("registry"), st.sampled_from([0.0, 0.0, 0.3]))
storms = st.builds(Storm, st.one_of(_THERE, _BACK, _BOTH, _ELSEWHERE), WEATHERS)
silence = st.builds(Storm, st.one_of(_BACK, _BOTH), st.sampled_from([network.CUT, network.SLOW]))
lateness = st.builds(Storm, _BACK, st.sampled_from([network.SLOW, network.LATE]))
calm = st.just(Calm())

CLIMATES: dict[str, st.SearchStrategy[Event]] = {
    "everything": st.one_of(
        *(ends, renewals, leavings, needs, releases, slowness),
        *(pauses, service_pauses, deaths, replacements, restarts, storms, calm),
    ),
    "engines stand still": st.one_of(long_pauses, long_pauses, ends, ends, slowness, needs),
    "the registry is not heard": st.one_of(silence, silence, calm, slowness, service_pauses, renewals),
    "the registry forgets": st.one_of(quick_restarts, quick_restarts, ends, ends, slowness, releases, pauses),
    "the registry forgets, and is heard late": st.one_of(quick_restarts, lateness, lateness, ends, calm),
    "engines are replaced": st.one_of(replacements, deaths, storms, calm, ends),
    "messages go astray": st.one_of(storms, storms, releases, needs, ends, calm),
}
"""What goes wrong in one life: few kinds of events that are bad together, or all kinds."""
