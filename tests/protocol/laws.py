"""What must hold at every instant, whatever goes wrong. Looked at from outside, with true time."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc
from google.protobuf.message import Message

from kvlease.client.errors import from_rpc
from kvlease.connector.claim import Claim
from kvlease.connector.turn import Stage
from kvlease.registry.lease import State
from kvlease.registry.ledger import Ledger
from tests.protocol.calls import Call, Failed
from tests.protocol.engine import Engine
from tests.protocol.services import Registry

if TYPE_CHECKING:
    from tests.protocol.world import World

OURS = (grpc.StatusCode.INTERNAL, grpc.StatusCode.INVALID_ARGUMENT)
"""Nobody here sends what is malformed."""
SEEN = 5.0
"""Seconds: a call's timeout, a pause between two attempts, a slow step."""


@dataclass
class Life:
    """What was seen of one life of the registry."""

    states: dict[int, State] = field(default_factory=dict)
    left_live: dict[str, float] = field(default_factory=dict)


class Laws:
    """Checks a world after every instant."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._lives: dict[str, Life] = {}

    def check(self) -> None:
        """Raises Violation if anything does not hold."""
        self._answers_are_right()
        self._who_may_believe_in_a_claim_finds_the_blocks()
        self._nothing_is_kept_for_a_silent_registry()
        registry = self._world.registry
        if registry is not None:
            ledger = registry.ledger
            self._promises_are_within_the_owners_holds(registry)
            self._what_can_be_claimed_is_kept(registry)
            self._what_is_claimed_is_kept(registry)
            self._nothing_is_ordered_free_that_is_claimed(ledger)
            self._nothing_comes_back(ledger)

    def heard(self, call: Call, outcome: Message | Failed) -> None:
        """Looks at a call that a service has carried out."""
        self._world.journal.heard(self._world.timeline.now, call, outcome)
        if not isinstance(outcome, Failed):
            return
        if outcome.code() in OURS:
            raise self._world.violation(f"{call.method} of {call.caller.name}: {outcome.details()}") from outcome.cause  # type: ignore[misc]
        if outcome.code() is grpc.StatusCode.RESOURCE_EXHAUSTED and not from_rpc(outcome).retry_after:
            raise self._world.violation(f"{call.method} is refused without saying when to try again")

    def _life(self) -> Life:
        registry = self._world.registry
        return self._lives.setdefault(registry.ledger.boot_id, Life()) if registry else Life()

    def _answers_are_right(self) -> None:
        for engine in self._world.by_incarnation.values():
            if engine.wrong_answers:
                raise self._world.violation(f"{engine.process.name} answered from KV that was freed before it was read")

    def _who_may_believe_in_a_claim_finds_the_blocks(self) -> None:
        """A read that ended now would be used: then nothing of what it reads may have been freed."""
        for engine in self._world.by_incarnation.values():
            now = engine.process.clock()
            for turn in engine.connector._leasing._turns.values():
                claim = turn.claim
                owner = self._owner_of(claim) if claim else None
                if claim and owner and turn.stage is not Stage.OVER and claim.holds(now):
                    self._believed_rightly(engine, claim, owner)

    def _owner_of(self, claim: Claim) -> Engine | None:
        return self._world.by_incarnation.get(claim.lease.handle.engine.incarnation)

    def _believed_rightly(self, reader: Engine, claim: Claim, owner: Engine) -> None:
        who, lease_id = reader.process.name, claim.lease.lease_id
        if lease_id not in owner.connector.retention._kept:
            raise self._world.violation(f"{who} may still use {lease_id}, but {owner.process.name} freed it")
        registry = self._world.registry
        if registry is not None:
            ledger, ends = registry.ledger, reader.process.true(claim.end)
            known = ledger.claims.get(claim.claim_id)
            kept = registry.process.true(known.ends_at if known else ledger.quiet_until)
            if ends > kept:
                late = ends - kept
                raise self._world.violation(f"{who} counts on {lease_id} for {late:.3f} s more than the registry")

    def _nothing_is_kept_for_a_silent_registry(self) -> None:
        """For longer than hold, and the time that an engine takes to see it."""
        for engine in self._world.by_incarnation.values():
            if engine.process.paused or engine.owner._last_answer is None or not engine.owner.leases:
                continue
            over = engine.process.true(engine.owner._last_answer + engine.owner._hold)
            if max(over, engine.process.resumed_at) + SEEN < self._world.timeline.now:
                raise self._world.violation(f"{engine.process.name} keeps blocks for a registry that is gone")

    def _promises_are_within_the_owners_holds(self, registry: Registry) -> None:
        """What the registry takes for promised, and so the longest claim, ends before the owner frees by itself."""
        for session in registry.ledger.sessions.values():
            owner = self._world.by_incarnation.get(session.engine.ref.incarnation)
            if owner is None or not session.leases or owner.owner._last_answer is None:
                continue
            promised = registry.process.true(registry.ledger.promised_until(session))
            held = owner.process.true(owner.owner._last_answer + owner.owner._hold)
            if promised > held:
                late = promised - held
                raise self._world.violation(f"{owner.process.name} may free {late:.3f} s before its promise is over")

    def _what_can_be_claimed_is_kept(self, registry: Registry) -> None:
        ledger, least = registry.ledger, self._world.rules.timing.least_claim
        for lease in ledger.leases.values():
            claimable = lease.state is State.LIVE and lease.owner.open and lease.expires_at > registry.process.clock()
            if claimable and ledger.promised_until(lease.owner) >= registry.process.clock() + least:
                owner = self._world.by_incarnation.get(lease.terms.handle.engine.incarnation)
                if owner is not None and lease.lease_id not in owner.connector.retention._kept:
                    raise self._world.violation(f"{lease.lease_id} can be claimed, but {owner.process.name} freed it")

    def _what_is_claimed_is_kept(self, registry: Registry) -> None:
        now = registry.process.clock()
        for claim in registry.ledger.claims.values():
            owner = self._world.by_incarnation.get(claim.lease.terms.handle.engine.incarnation)
            if owner is None or claim.lease.state is State.FREED or claim.ends_at <= now:
                continue
            if claim.lease.lease_id not in owner.connector.retention._kept:
                raise self._world.violation(f"{claim.lease.lease_id} is claimed, but {owner.process.name} freed it")
            if claim.ends_at > registry.ledger.promised_until(claim.lease.owner):
                raise self._world.violation(f"{claim.lease.lease_id} is claimed for longer than it is promised")

    def _nothing_is_ordered_free_that_is_claimed(self, ledger: Ledger) -> None:
        for session in ledger.sessions.values():
            for lease_id in session.orders:
                lease = ledger.leases.get(lease_id)
                if lease is not None and (lease.state is not State.FREEING or lease.claims):
                    raise self._world.violation(
                        f"{lease_id} is ordered free, but it is {lease.state.name} with {lease.claims} claims"
                    )

    def _nothing_comes_back(self, ledger: Ledger) -> None:
        life = self._life()
        for lease in ledger.leases.values():
            if lease.state < life.states.get(lease.seq, State.LIVE):
                raise self._world.violation(f"{lease.lease_id} became {lease.state.name} again")
            life.states[lease.seq] = lease.state
            if lease.state is not State.LIVE:
                life.left_live[lease.lease_id] = ledger.now
            elif ledger.now < life.left_live.get(lease.lease_id, -1e9) + ledger.rules.tombstone:
                raise self._world.violation(f"{lease.lease_id} was over, and lives again")
