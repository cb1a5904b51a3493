"""What may be done to a registry, drawn at random, and done to a store so that answers can be compared."""

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, TypeAlias

from kvlease.registry.claims import Branch, ById, Prefill, Target
from kvlease.registry.endings import Selection
from kvlease.registry.errors import Refusal, SessionNotFound
from kvlease.registry.lease import Conversation, EngineRef, Kind, State, StopReason
from kvlease.registry.lists import Filter
from kvlease.registry.renewals import Renewal
from kvlease.registry.turns import TurnEnd, TurnOutcome
from tests.registry.digests import chain, prompt
from tests.registry.world import Hand, World

Step: TypeAlias = tuple[Any, ...]

BLOCKS = 20
ENGINES = ("d0", "d1", "p0")
RECENT = 6
"""Leases and claims that steps are about, beside new ones."""
TICKETS = ("k0", "k1", "k2")
CHATS = (Conversation("t1", "a"), Conversation("t1", "a"), Conversation("t1", "a"), Conversation("t2", "b é"))
STOPS = tuple(StopReason)
TEXTS = ("abcd", "abcdef", "abcdefgh", "abcdXYZWij", "zzzz", "zzzzyyyyx")


class Draw:
    """Draws steps: often what keeps engines alive and leases moving, now and then everything else."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._one = self._random.choice
        self._leases, self._claims = 0, 0

    def _lease(self) -> str:
        return f"l{max(0, self._leases - self._random.randrange(RECENT))}"

    def _claim_id(self) -> str:
        return f"c{max(0, self._claims - self._random.randrange(RECENT))}"

    def step(self) -> Step:
        """One step: its name and what it is given."""
        weights = {
            "time": 10, "everybody beats": 8, "beat": 6, "grant": 24, "claim": 16, "renew claim": 4, "finish": 5,
            "announce": 4, "renew": 4, "end turn": 4, "release": 4, "page": 4, "open": 1, "close": 0.3, "drain": 1,
            "revoke": 1, "release all": 0.3, "end conversation": 1,
        }  # fmt: skip
        (name,) = self._random.choices([*weights], [*weights.values()])
        return name, *getattr(self, f"_{name.replace(' ', '_')}")()

    def _few(self) -> tuple[str, ...]:
        return tuple(sorted({self._lease() for _ in range(self._one([0, 0, 1, 2]))}))

    def _time(self) -> Step:
        return (self._one([0.25, 0.5, 1.0, 1.0, 1.0, 2.5, 2.5, 5.0, 13.0]),)

    def _everybody_beats(self) -> Step:
        return ()

    def _beat(self) -> Step:
        one = self._one
        told = {"freed": self._few(), "renew": self._few(), "reclaim": one([0, 0, 0, 5, 12]), "leased": one([0, 0, 5])}
        return one(ENGINES), {**told, "lost": one([False, True]), "draining": one([False, False, True])}

    def _grant(self) -> Step:
        one = self._one
        kind = one([Kind.DECODE, Kind.DECODE, Kind.DECODE, Kind.PREFILL])
        ticket = one(TICKETS) if kind is Kind.PREFILL else one(["", *TICKETS])
        told = {"kind": kind, "conversation": one(CHATS), "ticket_id": ticket, "parent": self._lease()}
        self._leases += one([0, 1, 1, 1])
        lease_id = one([f"l{self._leases}", f"l{self._leases}", self._lease()])
        return one(ENGINES), lease_id, one(TEXTS), {**told, "blocks": one([1, 2, 3, 5, 11]), "stop": one(STOPS)}

    def _claim(self) -> Step:
        one = self._one
        of = one([None, EngineRef(one(ENGINES), one(["i1", "i2"]))])
        branch = Branch(one(CHATS), prompt(one(TEXTS) + "more"))
        target = one([branch, branch, Prefill(one(TICKETS), of), ById(self._lease())])
        self._claims += one([0, 1, 1])
        return one(ENGINES), f"c{self._claims}", target

    def _renew_claim(self) -> Step:
        return self._one(ENGINES), self._claim_id()

    def _finish(self) -> Step:
        return self._one(ENGINES), self._claim_id()

    def _announce(self) -> Step:
        one = self._one
        return one(ENGINES), self._lease(), one(CHATS), one(TEXTS), one([0, 1, 3]), one([0.0, 4.0, 99.0])

    def _renew(self) -> Step:
        one = self._one
        return one(["t1", "t2"]), [Renewal(self._lease(), one(["", "a"]), one([None, 0.0, 3.0, 100.0])) for _ in "ab"]

    def _end_turn(self) -> Step:
        one = self._one
        decode = one([None, EngineRef(one(ENGINES), "i1")])
        return (TurnEnd(one(TICKETS), one(CHATS), one([*TurnOutcome]), one(STOPS), decode),)

    def _release(self) -> Step:
        return self._one(ENGINES), self._lease()

    def _page(self) -> Step:
        one = self._one
        state, kind = one([None, *State]), one([None, *Kind])
        wanted = Filter(one(["t1", "t2"]), one(["", "", "a"]), one(["", "", "d0"]), kind, state)
        return wanted, one([0, 0, 3]), one([1, 3])

    def _open(self) -> Step:
        return self._one(ENGINES), self._one(["i1", "i1", "i2"])

    def _drain(self) -> Step:
        return self._one(ENGINES), self._one([True, False])

    def _close(self) -> Step:
        return (self._one(ENGINES),)

    def _revoke(self) -> Step:
        one = self._one
        by_id, by_chat = Selection(self._few() or (self._lease(),)), Selection(conversation=one(CHATS))
        return (one([by_id, by_chat, Selection(conversation=one(CHATS), engine_id="d1"), Selection(engine_id="d0")]),)

    def _release_all(self) -> Step:
        return (self._one(ENGINES),)

    def _end_conversation(self) -> Step:
        return (self._one(CHATS),)


@dataclass
class Twin:
    """A store with its engines, and what is done to it."""

    world: World
    hands: dict[str, Hand] = field(default_factory=dict)

    async def start(self) -> None:
        """Opens the engines' sessions."""
        for engine_id in ENGINES:
            self.hands[engine_id] = await self.world.engine(engine_id, "i1", BLOCKS)

    async def do(self, step: Step) -> Any:
        """Does a step; returns the answer, or what it was refused with, as plain values."""
        what, *given = step
        try:
            answer = await getattr(self, f"_{what.replace(' ', '_')}")(*given)
        except Refusal as refusal:
            return type(refusal).__name__, plain(vars(refusal))
        return plain(answer)

    async def state(self) -> Any:
        """All that can be seen."""
        store, wanted = self.world.store, [Filter(tenant, state=state) for tenant in ("t1", "t2") for state in State]
        seen = [await store.page(x, 0, 100, whole=True) for x in wanted]
        return plain([seen, await store.engines("", include_lost=True), await store.engines("m", include_lost=False)])

    async def _time(self, seconds: float) -> None:
        await self.world.advance(seconds)

    async def _open(self, engine_id: str, incarnation: str) -> int:
        self.hands[engine_id].ref = EngineRef(engine_id, incarnation)
        await self.hands[engine_id].open()
        return self.hands[engine_id].budget

    async def _beat(self, engine_id: str, told: dict[str, Any]) -> Any:
        answer = await self.hands[engine_id].beat(**told)
        return answer.number, sorted(answer.free), sorted(answer.remaining)

    async def _everybody_beats(self) -> Any:
        """Also brings back those that were lost."""
        answers = []
        for engine_id, hand in self.hands.items():
            try:
                answers.append(await self._beat(engine_id, {}))
            except SessionNotFound:
                await hand.open()
        return answers

    async def _drain(self, engine_id: str, undo: Any) -> None:
        await self.world.store.drain(engine_id, undo=undo)

    async def _close(self, engine_id: str) -> None:
        await self.world.store.close_session(self.hands[engine_id].credential)

    async def _grant(self, engine_id: str, lease_id: str, text: str, told: dict[str, Any]) -> Any:
        hand = self.hands[engine_id]
        terms = hand.terms(lease_id, chain(text), **told)
        report = b"\xff" + text.encode() if terms.kind is Kind.PREFILL else None
        return await self.world.store.grant(hand.credential, terms, report)

    async def _announce(self, engine_id: str, lease_id: str, chat: Conversation, text: str, *more: Any) -> Any:
        generation, remaining = more
        hand = self.hands[engine_id]
        return await hand.announce((hand.terms(lease_id, chain(text), conversation=chat), generation, remaining))

    async def _claim(self, engine_id: str, claim_id: str, target: Target) -> Any:
        return await self.world.store.claim(self.hands[engine_id].credential, claim_id, target, 0.0)

    async def _renew_claim(self, engine_id: str, claim_id: str) -> float:
        return await self.hands[engine_id].renew_claim(claim_id)

    async def _finish(self, engine_id: str, claim_id: str) -> str | None:
        return await self.world.store.finish_claim(self.hands[engine_id].credential, claim_id)

    async def _renew(self, tenant: str, renewals: list[Renewal]) -> Any:
        return await self.world.store.renew(tenant, renewals)

    async def _release(self, engine_id: str, lease_id: str) -> bool:
        return await self.hands[engine_id].release(lease_id)

    async def _release_all(self, engine_id: str) -> Any:
        return await self.world.store.release_all(self.hands[engine_id].credential, 0.0)

    async def _end_conversation(self, chat: Conversation) -> int:
        return await self.world.store.end_conversation(chat)

    async def _end_turn(self, ending: TurnEnd) -> bytes | None:
        return await self.world.store.end_turn(ending)

    async def _revoke(self, selection: Selection) -> int:
        return await self.world.store.revoke(selection)

    async def _page(self, wanted: Filter, after: int, size: int) -> Any:
        return await self.world.store.page(wanted, after, size, whole=True)


def plain(value: Any) -> Any:
    """Values without classes; lengths of time rounded, since they are computed from different instants."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {key: plain(x) for key, x in value.items()}
    if isinstance(value, list | tuple | set):
        return [plain(x) for x in value]
    return round(value, 6) if isinstance(value, float) else value
