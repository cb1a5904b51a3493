"""Random lives of a deployment, drawn and shrunk by hypothesis."""

from array import array

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kvlease.registry.rules import Rules, Timing
from kvlease.registry.value import LeastRecentlyRenewed, LikelyReturn
from tests.protocol import recovery
from tests.protocol.engine import BLOCK
from tests.protocol.faults import CHATS, CLIMATES, SPANS, Event
from tests.protocol.gateway import Tokens
from tests.protocol.world import World

TIMINGS = (Timing(), Timing(heartbeat=0.5, hold=5.0, claim=2.5, margin=0.1, least_claim=0.5))
RULES = [
    Rules(timing=timing, answered_ttl=15.0, tools_ttl=40.0, prefill_ttl=15.0, longest_life=60.0, tombstone=13.0)
    for timing in TIMINGS
]
MOMENTS = st.sampled_from([0.03, 0.3, 1.0, 3.0])
Scene = list[tuple[float, Event]]
"""Events, and how long after the one before each comes."""
SCENES = {name: st.lists(st.tuples(MOMENTS, events), max_size=4) for name, events in CLIMATES.items()}
SCENE: st.SearchStrategy[Scene] = st.runner().flatmap(lambda machine: SCENES[machine.climate])
MOST_TURNS = 4
"""At once: the pools are small."""
LONGEST = 6
"""Blocks of a history that a client goes on from."""


class ProtocolMachine(RuleBasedStateMachine):
    """Turns, and what happens meanwhile. After each life everything heals, works, and is forgotten."""

    world: World
    climate: str

    climates = sorted(CLIMATES)

    @initialize(
        climate=st.runner().flatmap(lambda machine: st.sampled_from(machine.climates)),
        seed=st.integers(0, 999),
        rules=st.sampled_from(RULES),
        learns=st.booleans(),
    )
    def begin(self, climate: str, seed: int, rules: Rules, *, learns: bool) -> None:
        self.climate = climate
        self.world = World(seed, rules, LikelyReturn if learns else LeastRecentlyRenewed)
        self.world.run(1.0)

    @rule(chat=CHATS, decode=st.sampled_from(["d0", "d1"]), read=st.sampled_from([0.0, 0.5, 2.0, 4.0]), scene=SCENE)
    def a_client_goes_on(self, chat: str, decode: str, read: float, scene: Scene) -> None:
        """From its last answer."""
        self._ask(chat, _said(self._known(chat)[-1], 0), decode, read)
        self._play(scene)

    @rule(
        chat=CHATS,
        which=st.integers(1, 3),
        cut=st.integers(1, 4),
        decode=st.sampled_from(["d0", "d1"]),
        tools=st.booleans(),
        alone=st.booleans(),
        scene=SCENE,
    )
    def a_client_branches(
        self, chat: str, which: int, cut: int, decode: str, scene: Scene, *, tools: bool, alone: bool
    ) -> None:
        """From the first so many blocks of one of its answers."""
        known = self._known(chat)
        prompt = _said(known[-which % len(known)][: cut * BLOCK], which)
        self._ask(chat, prompt, decode, 0.0, tools=tools, alone=alone)
        self._play(scene)

    @rule(scene=SCENE, seconds=SPANS)
    def time_passes(self, scene: Scene, seconds: float) -> None:
        self._play(scene)
        self.world.run(seconds)

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        try:
            self.world.heal()
            self.world.run(recovery.CALM)
            recovery.turns_end(self.world)
            recovery.budgets_are_kept(self.world)
            recovery.reuse_works(self.world)
            recovery.memory_comes_back(self.world)
            assert self.world.registry is not None
            ledger = self.world.registry.ledger
        finally:
            self.world.close()
        recovery.nothing_is_remembered(self.world, ledger)

    def _known(self, chat: str) -> list[Tokens]:
        return self.world.gateway.histories.get(chat) or [array("i", range(BLOCK))]

    def _ask(
        self, chat: str, prompt: Tokens, decode: str, read: float, *, tools: bool = False, alone: bool = False
    ) -> None:
        engine, prefill = self.world.engines.get(decode), self.world.engines.get("p0")
        if engine is None or len(self.world.gateway.turns) >= MOST_TURNS:
            return
        engine.slow_reads(read)
        if prefill:
            prefill.slow_reads(read)
        self.world.turn(chat, prompt, engine, None if alone else prefill, tools=tools)

    def _play(self, scene: Scene) -> None:
        for seconds, event in scene:
            self.world.run(seconds)
            event.happen(self.world)
        self.world.run(0.3)


def _said(before: Tokens, what: int) -> Tokens:
    """What a client says after what was said before; longest histories are cut."""
    return before[: LONGEST * BLOCK] + array("i", (1000 * what + i for i in range(BLOCK)))
