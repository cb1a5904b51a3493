"""Owners and readers as they are beside the registry's view of them: who really holds blocks, who really reads.

The network takes no time here, except that heartbeat answers may arrive late or never. Owners are as quick to free as
the protocol allows, readers read to the last moment that they may: so any slack that the registry counts on shows.
"""

from dataclasses import dataclass, field

from kvlease.registry import announcements, claims, endings, grants, sessions
from kvlease.registry.announcements import Announced
from kvlease.registry.chain import Chain
from kvlease.registry.claims import Branch, Claimed, Prefill
from kvlease.registry.errors import ClaimLost, Refusal, SessionNotFound
from kvlease.registry.lease import Conversation, EngineRef, Handle, Kind, StopReason, Terms
from kvlease.registry.ledger import Ledger
from kvlease.registry.session import Credential, Engine
from kvlease.registry.sessions import Answer, Beat

BLOCKS = 20


@dataclass
class Held:
    """A lease as its owner knows it."""

    terms: Terms
    expires_at: float


@dataclass
class Owner:
    """One process of an engine."""

    ref: EngineRef
    credential: Credential = field(init=False)
    held: dict[str, Held] = field(default_factory=dict)
    freed: list[str] = field(default_factory=list)
    received: int = 0
    held_until: float = 0.0
    late: list[tuple[Credential, Answer]] = field(default_factory=list)
    overfull: bool = False
    """Whether it announced more than a registry would grant."""

    def open(self, ledger: Ledger, now: float, *, announcing: bool = True) -> None:
        """Opens a session, and announces what is held unless that is left for later."""
        opened = sessions.open_session(ledger, Engine(self.ref, ("m",), BLOCKS, b""))
        self.credential, self.received, self.freed = opened.credential, 0, []
        self.held_until = now + ledger.rules.timing.hold
        self.overfull = bool(self.held)
        if announcing:
            self.announce(ledger, now)

    def announce(self, ledger: Ledger, now: float) -> None:
        """Announces what is held, and frees what is over."""
        leases = [Announced(x.terms, 0, max(0.0, x.expires_at - now)) for x in self.held.values()]
        for result in announcements.announce(ledger, self.credential, leases):
            if not result.kept:
                del self.held[result.lease_id]

    def beat(self, ledger: Ledger, *, reclaim: int, late: bool, now: float) -> None:
        """Sends a heartbeat; its answer may be late."""
        freed, self.freed = self.freed, []
        try:
            answer = sessions.heartbeat(
                ledger, self.credential, Beat(self.received, freed=freed, reclaim=reclaim, renew=tuple(self.held)[:1])
            )
        except SessionNotFound:
            self.open(ledger, now)
            return
        if late:
            self.freed = freed
            self.late.append((self.credential, answer))
        else:
            self.take(self.credential, answer, now, ledger.rules.timing.hold)

    def take(self, credential: Credential, answer: Answer, now: float, hold: float) -> None:
        """Receives an answer: obeys it, and holds on from now."""
        if credential != self.credential:
            return
        if answer.number > self.received:
            self.received, self.held_until = answer.number, now + hold
        for lease_id, remaining in answer.remaining:
            if lease_id in self.held:
                self.held[lease_id].expires_at = now + remaining
        for lease_id, _ in answer.free:
            self.held.pop(lease_id, None)
            self.freed.append(lease_id)

    def fail_safe(self, now: float) -> None:
        """Frees everything once nothing was heard for `hold`, and will say so."""
        if now >= self.held_until:
            self.freed += self.held
            self.held.clear()

    def grant(self, ledger: Ledger, terms: Terms, now: float) -> None:
        """Holds blocks and asks for a lease; frees them if refused."""
        held = self.held.setdefault(terms.lease_id, Held(terms, now))
        try:
            held.expires_at = now + grants.grant(ledger, self.credential, terms, None).remaining
        except SessionNotFound:
            return
        except Refusal:
            del self.held[terms.lease_id]

    def release(self, ledger: Ledger, lease_id: str) -> None:
        """Gives a lease back; frees it if that is answered."""
        try:
            released, _ = endings.release(ledger, self.credential, [lease_id])
        except SessionNotFound:
            return
        for gone in released:
            self.held.pop(gone, None)

    def terms(  # noqa: PLR0917 - read by its names
        self, lease_id: str, kind: Kind, conversation: Conversation, ticket: str, chain: Chain, blocks: int
    ) -> Terms:
        handle = Handle(self.ref, "r", blocks, chain, b"", "test/1")
        return Terms(lease_id, kind, conversation, ticket, "", handle, StopReason.ANSWERED)


@dataclass
class Reading:
    """A claim as its reader knows it."""

    owner: EngineRef
    lease_id: str
    ends_at: float


@dataclass
class Reader:
    """A prefill or decode engine that reads."""

    ref: EngineRef
    credential: Credential = field(init=False)
    reading: dict[str, Reading] = field(default_factory=dict)

    def open(self, ledger: Ledger) -> None:
        self.credential = sessions.open_session(ledger, Engine(self.ref, ("m",), 0, b"")).credential

    def claim(self, ledger: Ledger, claim_id: str, target: Branch | Prefill, now: float) -> None:
        """Claims what it can, and reads it to the last moment."""
        try:
            claimed = claims.claim(ledger, self.credential, claim_id, target, waits=False)
        except SessionNotFound:
            self.open(ledger)
        except Refusal:
            return
        else:
            assert isinstance(claimed, Claimed)
            terms = claimed.lease.terms
            self.reading[claim_id] = Reading(terms.handle.engine, terms.lease_id, now + claimed.ttl)

    def renew(self, ledger: Ledger, claim_id: str, now: float) -> None:
        """Renews a claim, or gives the read up."""
        try:
            self.reading[claim_id].ends_at = now + claims.renew_claim(ledger, self.credential, claim_id)
        except ClaimLost:
            del self.reading[claim_id]
        except SessionNotFound:
            self.open(ledger)

    def finish(self, ledger: Ledger, claim_id: str) -> None:
        """Ends a read."""
        del self.reading[claim_id]
        try:
            claims.finish_claim(ledger, self.credential, claim_id)
        except SessionNotFound:
            self.open(ledger)

    def live(self, now: float) -> list[Reading]:
        """Reads that may still be believed."""
        return [x for x in self.reading.values() if now < x.ends_at]
