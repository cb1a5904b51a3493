"""The registry's own ledger, driven by a replay: one decode engine, whose budget is all that limits it."""

from contextlib import suppress
from itertools import count

from benchmarks.replay.tally import Tally
from benchmarks.replay.traffic import Happening, Traffic
from kvlease.registry import claims, endings, grants, sessions
from kvlease.registry.chain import DIGEST, Chain, Prompt
from kvlease.registry.change import Event
from kvlease.registry.claims import Branch, Claimed
from kvlease.registry.errors import BudgetExhausted, NoLease
from kvlease.registry.lease import Conversation, EngineRef, Handle, Kind, Reason, Terms
from kvlease.registry.leases import Lease
from kvlease.registry.ledger import Ledger
from kvlease.registry.rules import Rules, Timing
from kvlease.registry.session import Engine
from kvlease.registry.value import Value

BLOCK = 64
"""Tokens."""
DECODE = EngineRef("decode", "1")
EVER = 1e7
"""Seconds of hold: how engines are lost is no part of a replay."""
TIMING = Timing(hold=EVER, margin=EVER / 100)


class Replay:
    """Plays traffic to a ledger."""

    def __init__(self, traffic: Traffic, value: Value, *, budget: float, ttl: float, end: bool) -> None:
        """The budget is in tokens. With `end` a conversation is ended after its last turn."""
        rules = Rules(TIMING, ttl, ttl, longest_life=3600.0, retention=1.0, tombstone=EVER)
        names = count()
        self._ledger = Ledger(rules, 0.0, token=lambda: f"t{next(names)}", value=value)
        engine = Engine(DECODE, ("m",), min(int(budget / BLOCK), 1 << 40), b"")
        self._session = sessions.open_session(self._ledger, engine).credential
        self._traffic, self._end = traffic, end
        self._tally = Tally(traffic)
        self._kept: dict[str, tuple[int, float]] = {}
        """Tokens and since when, of leases whose next turn has not come."""

    def play(self) -> Tally:
        """Plays all of it."""
        for happening in self._traffic.happenings:
            self._pass_time(happening.at)
            (self._turn_ends if happening.ends else self._turn_begins)(happening)
            self._take_note()
        for tokens, since in self._kept.values():
            self._tally.let_go(tokens, since, self._traffic.until)
        return self._tally

    def _pass_time(self, now: float) -> None:
        while self._ledger.now < now:  # much at once is done little by little
            self._ledger.advance(now)
            self._take_note()

    def _turn_begins(self, happening: Happening) -> None:
        part = self._traffic.parts[happening.part]
        ledger, digest = self._ledger, _digest(happening.part)
        target = Branch(Conversation("t", part.name), Prompt("k", 1, (1,), digest))
        claim_id = f"{happening.part}.{happening.turn}"
        hit = False
        with suppress(NoLease):
            found = claims.claim(ledger, self._session, claim_id, target, waits=False)
            claims.finish_claim(ledger, self._session, claim_id)
            hit = isinstance(found, Claimed)
        self._let_go(f"{happening.part}.{happening.turn - 1}")
        self._tally.came(happening, part.turns[happening.turn - 1].tokens, hit=hit)

    def _turn_ends(self, happening: Happening) -> None:
        part = self._traffic.parts[happening.part]
        turn, lease_id = part.turns[happening.turn], f"{happening.part}.{happening.turn}"
        blocks = -(-turn.tokens // BLOCK)
        handle = Handle(DECODE, lease_id, blocks, Chain("k", 1, turn.tokens, _digest(happening.part)), b"", "")
        conversation = Conversation("t", part.name)
        terms = Terms(lease_id, Kind.DECODE, conversation, "", "", handle, turn.stop_reason)
        try:
            grants.grant(self._ledger, self._session, terms, None)
        except BudgetExhausted:
            return
        self._kept[lease_id] = (turn.tokens, happening.at)
        if self._end and part.ends and happening.turn + 1 == len(part.turns):
            endings.end_conversation(self._ledger, conversation)

    def _take_note(self) -> None:
        """Notes which leases are over, and frees them as their engine would."""
        ledger = self._ledger
        for event, lease, _, reason in ledger.changes:
            if event is Event.RETIRED:
                self._let_go(lease.lease_id, _ended_at(lease, reason, ledger.now))
        if ledger.changes:
            ledger.forget_changes()
            answer = sessions.heartbeat(ledger, self._session, sessions.Beat(0))
            sessions.heartbeat(ledger, self._session, sessions.Beat(answer.number, freed=[x for x, _ in answer.free]))
        ledger.forget_changes()

    def _let_go(self, lease_id: str, at: float | None = None) -> None:
        if kept := self._kept.pop(lease_id, None):
            self._tally.let_go(*kept, self._ledger.now if at is None else at)


def _ended_at(lease: Lease, reason: Reason, now: float) -> float:
    return lease.expires_at if reason is Reason.EXPIRED else now


def _digest(part: int) -> bytes:
    return part.to_bytes(DIGEST, "big")
