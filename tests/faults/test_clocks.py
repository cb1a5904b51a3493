"""Owner, registry and reader on clocks of their own, with answers that come late: who frees counts from receipt."""

import itertools
from collections.abc import Callable

import pytest

from kvlease.connector.claim import Claim
from kvlease.connector.owner import Owner
from kvlease.registry.claims import ById, Claimed
from kvlease.registry.grants import Granted
from kvlease.registry.lease import Conversation, EngineRef, Handle, Kind, StopReason, Terms
from kvlease.registry.memory import MemoryStore
from kvlease.registry.rules import Rules
from kvlease.registry.session import Credential, Engine
from kvlease.registry.sessions import Beat
from kvlease.registry.value import LeastRecentlyRenewed
from kvlease.v1.lease_pb2 import Lease
from tests.conftest import Seen
from tests.connector.grants import grant
from tests.registry.digests import chain
from tests.support.clock import FakeClock, settle

LATE = 3.0  # seconds that an answer of the registry is on its way
STEP = 0.01  # seconds
EPOCHS = {"owner": 37.0, "reader": 5_000_000.0}
HOLD = Rules().timing.hold
ENGINES = {name: EngineRef(name, "first") for name in ("decode", "prefill")}


class Apart:
    """A registry on fake time, and the clocks of those who talk to it."""

    def __init__(self) -> None:
        self._clock, names = FakeClock(1000.0), itertools.count()
        self.store = MemoryStore(
            Rules(),
            clock=self._clock,
            sleep=self._clock.sleep,
            token=lambda: f"token{next(names)}",
            value=LeastRecentlyRenewed(),
            watch_limit=1,
        )
        self._sessions: dict[str, Credential] = {}
        self.passed = 0.0

    async def open(self) -> None:
        """Opens a session for each engine, and proves it."""
        for name, ref in ENGINES.items():
            opened = await self.store.open_session(Engine(ref, ("m",), 100, b""))
            self._sessions[name] = opened.credential
            await self.beat(name)

    async def advance(self, seconds: float) -> None:
        self.passed += seconds
        self._clock.advance(seconds)
        self.store.advance()
        await settle()

    def now(self, who: str) -> float:
        return EPOCHS[who] + self.passed

    async def last(self, holds: Callable[[], object]) -> float:
        """Seconds from now on for which something holds; it is asked every hundredth."""
        begun = self.passed
        while holds():
            await self.advance(STEP)
        return self.passed - begun

    async def beat(self, name: str) -> int:
        """Returns the number of the answer to a heartbeat."""
        return (await self.store.heartbeat(self._sessions[name], Beat(0))).number

    async def grant(self) -> Granted:
        """Grants decode the lease "l"."""
        kept = Handle(ENGINES["decode"], "r", 1, chain("history"), b"", "test/1")
        terms = Terms("l", Kind.DECODE, Conversation("t", "c"), "", "", kept, StopReason.UNKNOWN)
        return await self.store.grant(self._sessions["decode"], terms, None)

    async def claim(self) -> Claimed:
        """Claims it for prefill."""
        return await self.store.claim(self._sessions["prefill"], "claim", ById("l"), 0.0)


@pytest.fixture
async def apart() -> Apart:
    made = Apart()
    await made.advance(Rules().timing.claim)  # a registry gives no orders before
    await made.open()
    return made


@pytest.mark.case(27)
async def test_a_late_answer_ends_a_read_early_and_frees_late(apart: Apart, seen: Seen) -> None:
    await apart.grant()
    owner = Owner()
    owner.opened(HOLD, apart.now("owner"))
    owner.keep(grant("l"), apart.now("owner"))

    asked = apart.now("reader")
    beaten = await apart.beat("decode")  # answered at the same moment as the claim
    given = await apart.claim()
    await apart.advance(LATE)
    owner.answered(beaten, [], apart.now("owner"), 0)
    claim = Claim("c", Lease(), asked + given.ttl)
    reads = LATE + await apart.last(lambda: claim.holds(apart.now("reader")))
    holds = reads + await apart.last(lambda: not owner.due(apart.now("owner")))

    seen(f"a claim of {given.ttl:g} s ends {reads:.1f} s after it was asked for, its blocks are free at {holds:.1f} s")
    assert reads == pytest.approx(given.ttl, abs=2 * STEP)
    assert holds == pytest.approx(LATE + HOLD, abs=3 * STEP)


@pytest.mark.case(29)
async def test_lengths_do_not_depend_on_anybodys_epoch(apart: Apart, seen: Seen) -> None:
    granted = await apart.grant()
    owner = Owner()
    owner.opened(HOLD, apart.now("owner"))
    owner.keep(grant("l"), apart.now("owner"))
    owner.granted("l", granted.generation, granted.remaining, apart.now("owner"))
    await apart.advance(10.0)

    [announced] = owner.opened(HOLD, apart.now("owner"))
    left = announced.remaining.seconds + announced.remaining.nanos * 1e-9

    seen(f"granted for {granted.remaining:g} s; 10 s later {left:.1f} s remain for the owner")
    assert left == pytest.approx(granted.remaining - 10.0)
