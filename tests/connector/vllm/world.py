"""A prefill and a decode engine, a control plane of a few lines, and clients that come and go.

Any lease that is not claimed may be freed at any time, as by expiry, by the end of its conversation, or under pressure.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kvlease.connector.body import CODEC
from kvlease.connector.claim import Claim
from kvlease.connector.reader import Reader
from kvlease.connector.turn import Answer, Source, Turn
from kvlease.v1.lease_pb2 import Lease, LeaseKind
from kvlease.v1.registry_pb2 import GrantLeaseRequest
from tests.connector.requests import params, terms
from tests.connector.vllm.engine import Engine
from tests.connector.vllm.memory import BLOCK
from tests.support.clock import FakeClock

CLAIM = 2.0  # seconds


@dataclass
class Plane:
    """Leases and claims of some engines."""

    engines: list[Engine]
    claims: list[tuple[str, Claim]] = field(default_factory=list)  # by lease id
    freed: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)  # tickets whose prefill will not come

    @property
    def leases(self) -> list[tuple[Engine, GrantLeaseRequest]]:
        """Those that were not ordered free, and their owners."""
        return [(e, grant) for e in self.engines for grant in e.link.grants if grant.lease_id not in self.freed]

    def answer(self, reader: Engine, turn: Turn) -> None:
        """Answers what can be answered now."""
        if turn.source is Source.BRANCH:
            reader.link.answer(self._branch(reader, turn), turn)
        elif found := [g for _, g in self.leases if _is_prefill_of(turn, g)]:
            reader.link.answer(self._claim(reader, turn, found[0]), turn)
        elif turn.terms.ticket_id in self.failed:
            reader.link.answer(Answer(miss="PREFILL_FAILED"), turn)

    def free(self, owner: Engine, grant: GrantLeaseRequest) -> None:
        """Orders a lease free, unless somebody may read it."""
        over = {id(claim) for engine in self.engines for claim, _, _ in engine.link.finished}
        claims = [claim for lease_id, claim in self.claims if lease_id == grant.lease_id and id(claim) not in over]
        if not any(claim.holds(owner.clock()) for claim in claims):
            self.freed.add(grant.lease_id)
            owner.link.order_free(grant)

    def _branch(self, reader: Engine, turn: Turn) -> Answer:
        chain, best, most = turn.chain(), None, 0
        for _, grant in self.leases:
            if grant.kind == LeaseKind.LEASE_KIND_DECODE and grant.conversation == turn.terms.conversation:
                proved = chain.proved(grant.handle.chain, grant.handle.token_count)
                best, most = (grant, proved) if proved > most else (best, most)
        return self._claim(reader, turn, best) if best else Answer(miss="NO_LEASE")

    def _claim(self, reader: Engine, turn: Turn, grant: GrantLeaseRequest) -> Answer:
        claim = Claim(turn.request_id, Lease(lease_id=grant.lease_id, handle=grant.handle), reader.clock() + CLAIM)
        nobody: Any = None
        judge = Reader(nobody, nobody, nobody, reader.ref, codec=CODEC, answered=nobody, clock=reader.clock)
        answer = judge._usable(claim, turn.chain())
        if answer.claim is not None:
            self.claims.append((grant.lease_id, claim))
        return answer


def _is_prefill_of(turn: Turn, grant: GrantLeaseRequest) -> bool:
    return grant.kind == LeaseKind.LEASE_KIND_PREFILL and grant.ticket_id == turn.terms.ticket_id


class World:
    """What happens is told by the test, one event after another."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch, *, caching: bool, asynchronous: bool) -> None:
        """Starts both engines, with less room than they would like."""
        how: dict[str, Any] = {"clock": FakeClock(), "batch": 150, "asynchronous": asynchronous}
        self.p = Engine(folder, patch, blocks=61, caching=caching, kvlease_engine_id="p", **how)
        self.d = Engine(folder, patch, blocks=71, kvlease_engine_id="d", **how)
        self.engines, self.clock = [self.p, self.d], how["clock"]
        for engine, other in ((self.p, self.d), (self.d, self.p)):
            engine.workers.peers[other.leasing.engine_id] = other.memory
        self.plane = Plane(self.engines)
        self.requests: list[tuple[Engine, Any, str]] = []
        self._histories: dict[str, list[int]] = {}
        self._answers: list[tuple[str, Any]] = []
        self._words = 0

    # -- events ------------------------------------------------------------------------------------------------------

    def turn(self, *, name: str, keep: float, more: int, legs: str) -> None:
        """The next turn of a conversation, perhaps of a history that was cut."""
        if len(self.alive) > 8:
            return
        prompt = self._prompt(name, keep, more)
        ticket = f"ticket-{len(self.requests)}"
        prefill = None if legs == "alone" else self.p.ref
        said = params(terms(ticket_id=ticket, conversation=name, prefill=prefill, decode=self.d.ref))
        if legs == "both":
            self.requests.append((self.p, self.p.add(prompt, dict(said), max_tokens=1), ticket))
        elif legs == "no prefill":
            self.plane.failed.add(ticket)
        self.requests.append((self.d, self.d.add(prompt, dict(said), max_tokens=5), ticket))
        self._answers.append((name, self.requests[-1][1]))

    def go_on(self, *, times: int) -> None:
        """Everything goes well for a while."""
        for _ in range(times):
            self.answer()
            for which in (0, 1):
                self.end_reads(which=which, well=True)
                self.step(which=which, times=1)

    def step(self, *, which: int, times: int) -> None:
        for _ in range(times):
            if self.engines[which].busy:
                self.engines[which].step()

    def answer(self) -> None:
        """The control plane answers."""
        for engine in self.engines:
            for turn in engine.link.asked:
                if turn.answer is None:
                    self.plane.answer(engine, turn)

    def end_reads(self, *, which: int, well: bool) -> None:
        workers = self.engines[which].workers
        for request_id in list(workers.reads):
            workers.end(request_id) if well else workers.fail(request_id)

    def wait(self, *, seconds: float) -> None:
        self.clock.advance(seconds)

    def free(self, *, number: int) -> None:
        """A lease is over."""
        if leases := self.plane.leases:
            self.plane.free(*leases[number % len(leases)])

    def flood(self, *, which: int) -> None:
        """Somebody else's prompt fills every block that is free: whoever still reads one of them reads wrong KV."""
        engine = self.engines[which]
        free = engine.pool.get_num_free_blocks()
        if not free:
            return
        self._words += free * BLOCK
        request = engine.add(range(10_000 + self._words - free * BLOCK + 1, 10_000 + self._words), max_tokens=1)
        self.step(which=which, times=8)
        engine.abort(request)

    def stall(self) -> None:
        """Reads take longer than their claims last, and the owners give the blocks to others meanwhile."""
        self.answer()
        for which in (0, 1):
            self.step(which=which, times=1)
        self.clock.advance(CLAIM)
        for owner, grant in self.plane.leases:
            self.plane.free(owner, grant)
        for which in (0, 1):
            self.flood(which=which)

    def leave(self, *, number: int) -> None:
        """A client leaves one leg of its turn."""
        if alive := self.alive:
            engine, request, ticket = alive[number % len(alive)]
            engine.abort(request)
            if engine is self.p:
                self.plane.failed.add(ticket)

    def preempt(self, *, which: int) -> None:
        engine = self.engines[which]
        if engine.scheduler.running:
            engine.preempt(engine.scheduler.running[-1])

    # -- the end -----------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Lets everything come to its end, and every lease be over."""
        for _ in range(400):
            self.go_on(times=2)
            self.clock.advance(0.5)  # a read that hung takes its blocks out of use for a minute
            self.plane.failed |= {ticket for _, request, ticket in self.requests if request.is_finished()}
            for owner, grant in self.plane.leases:
                self.plane.free(owner, grant)
            if not any(engine.busy for engine in self.engines):
                break
        self.clock.advance(100.0)
        for engine in self.engines:
            engine.run()

    @property
    def alive(self) -> list[tuple[Engine, Any, str]]:
        """Requests that are not finished, with their engine and ticket."""
        return [told for told in self.requests if not told[1].is_finished()]

    @property
    def reads(self) -> list[str]:
        """How each claimed read ended."""
        return [f"{e.ref.engine_id}: {outcome}" for e in self.engines for outcome, _ in e.link.outcomes]

    def _prompt(self, name: str, keep: float, more: int) -> list[int]:
        for asked, request in self._answers:
            if request.is_finished():
                self._histories[asked] = list(request.all_token_ids)
        self._answers = [told for told in self._answers if not told[1].is_finished()]
        history = self._histories.get(name, [])
        self._words += more
        new = range(10_000 + self._words, 10_000 + self._words + more)
        return [*history[: round(keep * len(history))], *new][-500:]
