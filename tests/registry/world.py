"""A store on fake time, and engines that act on it by hand: what the contract of stores is written in."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from kvlease.registry.announcements import Announced, Announcement
from kvlease.registry.chain import Chain
from kvlease.registry.claims import Branch, ById, Claimed, Prefill, Target
from kvlease.registry.grants import Granted
from kvlease.registry.lease import Conversation, EngineRef, Handle, Kind, Reason, StopReason, Terms
from kvlease.registry.lists import Filter
from kvlease.registry.rules import Rules
from kvlease.registry.session import Credential, Engine
from kvlease.registry.sessions import Answer, Beat
from kvlease.registry.shown import Shown
from kvlease.registry.store import Store
from kvlease.registry.turns import TurnEnd, TurnOutcome
from tests.registry.digests import chain, prompt

TENANT = "t1"
CHAT = Conversation(TENANT, "chat")
BLOCKS = 100


@dataclass
class World:
    """A store and its time."""

    store: Store
    pass_time: Callable[[float], Awaitable[None]]
    rules: Rules
    settle: Callable[[], Awaitable[None]]
    """Lets whoever can go on do so, and what happened be heard."""

    async def advance(self, seconds: float) -> None:
        """Lets time pass, and whoever waits for it go on."""
        await self.pass_time(seconds)

    async def calm(self) -> None:
        """Waits until no claim of a life before can be live."""
        await self.advance(self.rules.timing.claim)

    async def engine(self, engine_id: str = "d0", incarnation: str = "i1", blocks: int = BLOCKS) -> "Hand":
        """Opens a session and proves it with a heartbeat."""
        hand = Hand(self, EngineRef(engine_id, incarnation), blocks)
        await hand.open()
        await hand.beat()
        return hand

    async def live(self, conversation: Conversation = CHAT) -> list[str]:
        """Ids of a conversation's live leases."""
        wanted = Filter(conversation.tenant, conversation_id=conversation.conversation_id)
        return [x.terms.lease_id for x in (await self.store.page(wanted, 0, 1000)).leases]

    async def show(self, lease_id: str) -> Shown:
        """Shows a lease of the usual tenant."""
        return await self.store.get(TENANT, lease_id)

    async def end_turn(
        self, ticket_id: str, outcome: TurnOutcome, *, stop: StopReason = StopReason.UNKNOWN, by: "Hand | None" = None
    ) -> bytes | None:
        """Tells the end of a turn of the usual conversation."""
        return await self.store.end_turn(TurnEnd(ticket_id, CHAT, outcome, stop, by.ref if by else None))


WorldMaker: TypeAlias = Callable[[Rules], World]


@dataclass
class Hand:
    """An engine moved by hand: it does only what it is told, and acknowledges every answer it got."""

    world: World
    ref: EngineRef
    blocks: int = BLOCKS
    credential: Credential = field(init=False)
    boot_id: str = field(init=False)
    budget: int = field(init=False)
    received: int = 0
    _claim_ids: "count[int]" = field(default_factory=count)

    @property
    def store(self) -> Store:
        return self.world.store

    async def open(self) -> None:
        opened = await self.store.open_session(Engine(self.ref, ("m",), self.blocks, b""))
        self.credential, self.boot_id, self.budget = opened.credential, opened.boot_id, opened.budget
        self.received = 0

    async def beat(
        self,
        *,
        received: int | None = None,
        lost: bool = False,
        freed: tuple[str, ...] = (),
        renew: tuple[str, ...] = (),
        reclaim: int = 0,
        leased: int = 0,
        draining: bool = False,
    ) -> Answer:
        """Sends a heartbeat; a lost one's answer does not arrive."""
        number = self.received if received is None else received
        beat = Beat(number, leased=leased, freed=freed, renew=renew, reclaim=reclaim, draining=draining)
        answer = await self.store.heartbeat(self.credential, beat)
        if not lost:
            self.received = answer.number
        return answer

    async def orders(self, **told: tuple[str, ...]) -> dict[str, Reason]:
        """What the next answer orders free."""
        return dict((await self.beat(**told)).free)  # type: ignore[arg-type]

    async def passes(self, seconds: float) -> None:
        """Lets time pass with a heartbeat every second."""
        for _ in range(int(seconds)):
            await self.world.advance(1.0)
            await self.beat()

    async def grant(self, lease_id: str, text: str, **more: object) -> Granted:
        """Grants a DECODE lease on a text's KV."""
        return await self.store.grant(self.credential, self.terms(lease_id, chain(text), **more), None)  # type: ignore[arg-type]

    async def grant_prefill(self, lease_id: str, ticket_id: str, report: bytes = b"") -> Granted:
        """Grants a PREFILL lease for a turn of no conversation."""
        terms = self.terms(
            lease_id, chain("prompt"), kind=Kind.PREFILL, conversation=Conversation(TENANT, ""), ticket_id=ticket_id
        )
        return await self.store.grant(self.credential, terms, report or None)

    async def announce(self, *leases: tuple[Terms, int, float]) -> list[Announcement]:
        """Announces leases: terms, generation and what remains."""
        return await self.store.announce(self.credential, [Announced(*x) for x in leases])

    def terms(
        self,
        lease_id: str,
        held: Chain | None = None,
        *,
        kind: Kind = Kind.DECODE,
        conversation: Conversation = CHAT,
        ticket_id: str = "",
        parent: str = "",
        blocks: int = 1,
        stop: StopReason = StopReason.UNKNOWN,
        engine: EngineRef | None = None,
    ) -> Terms:
        """What this engine says of a lease."""
        handle = Handle(engine or self.ref, f"r-{lease_id}", blocks, held or chain("text"), b"body", "test/1")
        return Terms(lease_id, kind, conversation, ticket_id, parent, handle, stop)

    async def claim(self, text: str, *, claim_id: str = "", wait: float = 0.0) -> Claimed:
        """Claims the best branch of the usual conversation for a prompt."""
        return await self._claim(Branch(CHAT, prompt(text)), claim_id, wait)

    async def claim_by_id(self, lease_id: str, claim_id: str = "") -> Claimed:
        """Claims one lease."""
        return await self._claim(ById(lease_id), claim_id, 0.0)

    async def claim_prefill(
        self, ticket_id: str, *, of: EngineRef | None = None, claim_id: str = "", wait: float = 0.0
    ) -> Claimed:
        """Claims a turn's PREFILL lease."""
        return await self._claim(Prefill(ticket_id, of), claim_id, wait)

    async def renew_claim(self, claim_id: str) -> float:
        return await self.store.renew_claim(self.credential, claim_id)

    async def finish(self, claim_id: str) -> None:
        await self.store.finish_claim(self.credential, claim_id)

    async def release(self, lease_id: str, wait: float = 0.0) -> bool:
        return await self.store.release(self.credential, lease_id, wait)

    async def _claim(self, target: Target, claim_id: str, wait: float) -> Claimed:
        claim_id = claim_id or f"{self.ref.engine_id}-{next(self._claim_ids)}"
        return await self.store.claim(self.credential, claim_id, target, wait)
