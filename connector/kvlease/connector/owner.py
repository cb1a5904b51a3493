"""What an engine has promised: its leases, and when each one's blocks may be freed. Pure: no vLLM, no gRPC, no clock.

An owner frees the blocks of a lease only

- on the registry's order,
- when the registry answered that it was released, or never granted,
- when no heartbeat answer has come for `hold`, counted from the *receipt* of the last one: no claim lasts that long.

A grant whose answer was lost counts as granted. Two threads use it (vLLM's scheduler and the link), so whatever changes
anything takes the lock, briefly; what each step asks does not, and may be a moment old.
"""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from kvlease.client.convert import seconds
from kvlease.v1.lease_pb2 import Lease, LeaseKind, RetireReason
from kvlease.v1.registry_pb2 import GrantLeaseRequest, Order

PREFILL_REMAINING = 5.0  # seconds, at most, in an announcement: whoever waited for it at a lost registry has given up


@dataclass(slots=True)
class Held:
    """A lease whose blocks are held."""

    grant: GrantLeaseRequest
    generation: int = 0
    expires: float | None = None  # owner's estimate; None until granted

    @property
    def blocks(self) -> int:
        """KV blocks that it holds."""
        return self.grant.handle.block_count


@dataclass(slots=True)
class Owner:
    """The leases of one engine, from the moment its blocks are kept to the moment they may be freed."""

    _held: dict[str, Held] = field(default_factory=dict)
    _to_free: dict[str, str] = field(default_factory=dict)  # lease id -> why
    _freed: list[str] = field(default_factory=list)
    _hold: float = 0.0
    _last_answer: float | None = None
    _number: int = 0
    _ordered: float | None = None  # when the oldest order came that is not carried out
    _lock: threading.Lock = field(default_factory=threading.Lock)

    # -- vLLM's scheduler thread ---------------------------------------------------------------------------------

    def keep(self, grant: GrantLeaseRequest, now: float) -> None:
        """Notes that the blocks of *grant* are held, before the grant is asked for."""
        with self._lock:
            if self._last_answer is None:
                self._last_answer = now  # never connected: the hold counts from the first promise
            self._held[grant.lease_id] = Held(grant)

    def lag(self, now: float) -> float | None:
        """Returns the seconds since the oldest order came that is not carried out, if there is one."""
        return None if (ordered := self._ordered) is None else now - ordered

    def due(self, now: float) -> Mapping[str, str]:
        """Takes the leases whose blocks are to be freed now, with the reason of each; they are told of as freed.

        That is noted here and not after the freeing: a heartbeat in between would extend the promise on blocks that a
        fail-safe has let go.
        """
        with self._lock:
            if self._silent(now):
                self._to_free |= dict.fromkeys(self._held, "registry silent")
                self._last_answer = None
            due, self._to_free = self._to_free, {}
            self._ordered = None
            for lease_id in due:
                self._held.pop(lease_id, None)
            self._freed.extend(due)
            return due

    @property
    def waiting(self) -> bool:
        """Something is to be freed."""
        return bool(self._to_free)

    def owes(self, now: float) -> bool:
        """Whether anything is `due`; without the lock, for each step: what comes this very moment is for the next."""
        return bool(self._to_free) or self._silent(now)

    @property
    def leases(self) -> int:
        """Leases held."""
        return len(self._held)

    # -- the link's thread ---------------------------------------------------------------------------------------

    def opened(self, hold: float, now: float) -> list[Lease]:
        """Begins a session, received at *now*; returns what is to be announced: what was granted and is to stay."""
        with self._lock:
            self._hold, self._last_answer, self._number = hold, now, 0
            self._freed.clear()
            return [
                _announcement(held, now)
                for lease_id, held in self._held.items()
                if held.expires is not None and lease_id not in self._to_free
            ]

    def granted(self, lease_id: str, generation: int, remaining: float, now: float) -> bool:
        """Notes an answered grant; False: the blocks are no longer held, so the lease is to be released."""
        with self._lock:
            held = self._held.get(lease_id)
            if held is None:
                return False
            held.generation, held.expires = generation, now + remaining
            return True

    def over(self, lease_id: str, why: str) -> None:
        """Lets the blocks go: the registry refused the grant, answered its release, or does not know the lease."""
        with self._lock:
            if lease_id in self._held:
                self._to_free[lease_id] = why

    def answered(self, number: int, orders: Iterable[Order], now: float, reported: int) -> None:
        """Takes a heartbeat's answer, received at *now*, to a request that reported *reported* freed leases."""
        with self._lock:
            self._last_answer = now
            self._number = max(self._number, number)
            del self._freed[:reported]
            for order in orders:
                held = self._held.get(order.lease_id)
                if order.HasField("free"):
                    if held is None:
                        self._freed.append(order.lease_id)
                    else:
                        self._to_free[order.lease_id] = _name(order.free.reason)
                        self._ordered = now if self._ordered is None else self._ordered
                elif held is not None:
                    held.expires = now + seconds(order.remaining)

    def report(self) -> tuple[int, list[str]]:
        """Returns what a heartbeat tells: the highest answer number received, and the leases that were freed."""
        with self._lock:
            return self._number, list(self._freed)

    def silent(self, now: float) -> bool:
        """The registry has not answered for `hold`: nothing that was promised binds any more."""
        with self._lock:
            return self._silent(now)

    def holds(self, lease_id: str) -> bool:
        """Whether the blocks of *lease_id* are held, and not due to be freed."""
        with self._lock:
            return lease_id in self._held and lease_id not in self._to_free

    def _silent(self, now: float) -> bool:
        return bool(self._held) and self._last_answer is not None and now > self._last_answer + self._hold


def _name(reason: "RetireReason.ValueType") -> str:
    """Returns the reason's name, or its number where the registry is newer than this engine."""
    return RetireReason.Name(reason) if reason in RetireReason.values() else str(reason)


def _announcement(held: Held, now: float) -> Lease:
    grant = held.grant
    lease = Lease(
        lease_id=grant.lease_id,
        kind=grant.kind,
        conversation=grant.conversation,
        generation=held.generation,
        parent_lease_id=grant.parent_lease_id,
        ticket_id=grant.ticket_id,
        handle=grant.handle,
        stop_reason=grant.stop_reason,
    )
    remaining = max(0.0, (held.expires or now) - now)
    if grant.kind == LeaseKind.LEASE_KIND_PREFILL:
        remaining = min(remaining, PREFILL_REMAINING)
    lease.remaining.FromNanoseconds(round(remaining * 1e9))
    return lease
