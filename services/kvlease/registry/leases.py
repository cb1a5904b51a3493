"""All leases, in columns: as objects of their own they would take four times as much, and there may be a million.

A `Lease` is a row: it has no more than its number, and reads and writes the columns. Rows begin with 1; 0 is none.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kvlease.registry import fold
from kvlease.registry.chain import Chain
from kvlease.registry.columns import Column, choice, column, empty, link
from kvlease.registry.index import Index
from kvlease.registry.lease import Conversation, EngineRef, Kind, Reason, State, StopReason, Terms

if TYPE_CHECKING:
    from kvlease.registry.gaps import Gaps
    from kvlease.registry.session import Session

GROWTH = 256
"""So many rows are made at a time at most."""
_STATES = (State.LIVE, *State)
_REASONS = tuple(Reason)
_STOP_REASONS = tuple(StopReason)


class Lease:
    """A lease as the ledger keeps it. Instants are the ledger's; only the ledger moves the state."""

    __slots__ = ("columns", "row")

    owner: Column["Session"] = column("owner")
    seq: Column[int] = column("seq")
    """Order of arrival, for lists."""
    generation: Column[int] = column("generation")
    granted_at: Column[float] = column("granted_at")
    expires_at: Column[float] = column("expires_at")
    looked_at: Column[float] = column("looked_at")
    """When its timer looks whether it has expired."""
    renewed_at: Column[float] = column("renewed_at")
    """Last granted or renewed."""
    used_at: Column[float] = column("used_at")
    """Last granted, renewed or claimed."""
    claims: Column[int] = column("claims")
    state: Column[State] = choice("state", _STATES)
    reason: Column[Reason] = choice("reason", _REASONS)
    stop_reason: Column[StopReason] = choice("stop_reason", _STOP_REASONS)
    returned: Column[bool] = choice("returned", (False, True))
    """Whether a next turn has come to it."""
    gaps: Column["Gaps | None"] = column("gaps")
    """What the value policy expects of it, if it learns that."""
    sibling: Column["Lease | None"] = link("sibling")
    """The next older lease of its conversation."""
    before: Column["Lease | None"] = link("before")
    """The lease that its owner got before it."""
    behind: Column["Lease | None"] = link("behind")
    """The lease that its owner got after it."""
    family: Column[fold.Family] = column("family")
    text: Column[bytes] = column("text")

    def __init__(self, columns: tuple[Any, ...], row: int) -> None:
        self.columns = columns
        self.row = row

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lease) and other.row == self.row

    def __hash__(self) -> int:
        return self.row

    @property
    def terms(self) -> Terms:
        """What the owner said of it."""
        return fold.unfold(self.family, self.text)

    @property
    def lease_id(self) -> str:
        return fold.lease_id(self.text)

    @property
    def kind(self) -> Kind:
        return self.family.kind

    @property
    def engine(self) -> EngineRef:
        return self.family.engine

    @property
    def tenant(self) -> str:
        return self.family.tenant

    @property
    def conversation(self) -> Conversation:
        return Conversation(self.family.tenant, fold.conversation_id(self.text))

    def belongs_to(self, conversation: Conversation) -> bool:
        return (self.family.tenant, fold.conversation_id(self.text)) == conversation

    @property
    def ticket_id(self) -> str:
        return fold.ticket_id(self.text)

    @property
    def chain(self) -> Chain:
        return fold.chain(self.family, self.text)

    @property
    def tokens(self) -> int:
        return fold.tokens(self.text)

    @property
    def blocks(self) -> int:
        return fold.blocks(self.text)

    def remaining(self, now: float) -> float:
        """Seconds until it expires unrenewed; 0 once it is out of use."""
        return max(0.0, self.expires_at - now) if self.state is State.LIVE else 0.0


class Leases:
    """Every lease that is not freed, by id."""

    def __init__(self) -> None:
        self._columns = empty()
        self._empty: list[int] = []
        """Rows that are free for others."""
        self._left: list[int] = []
        """Rows of freed leases that somebody may still look at."""
        self._index = Index()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, lease_id: str) -> bool:
        return self.get(lease_id) is not None

    def get(self, lease_id: str) -> Lease | None:
        """Returns a lease; None if there is none of that id, or it is freed."""
        for row in self._index.rows(lease_id):
            lease = Lease(self._columns, row)
            if lease.lease_id == lease_id:
                return lease
        return None

    def row(self, row: int) -> Lease:
        """Returns the lease in a row that somebody remembered: it may be another one by now."""
        return Lease(self._columns, row)

    def values(self) -> Iterator[Lease]:
        """Gives all, in no order that means anything."""
        for row in range(1, len(self._columns[0])):
            lease = Lease(self._columns, row)
            if lease.text and lease.state is not State.FREED:
                yield lease

    def add(self, terms: Terms, owner: "Session", *, seq: int, generation: int, now: float) -> Lease:
        """Takes a new live lease, which is yet to be told when it expires."""
        family, text = fold.fold(terms)
        if not self._empty:
            self._grow()
        row = self._empty[-1]
        instants = (now, now, 0.0, now, now)
        states = (State.LIVE, Reason.NONE, terms.stop_reason, False)
        values = (seq, generation, *instants, 0, 0, 0, 0, *states, text, family, owner, None)
        for each, value in zip(self._columns, values, strict=True):
            each[row] = value
        self._empty.pop()
        self._index.add(terms.lease_id, row)
        self._count += 1
        return Lease(self._columns, row)

    def remove(self, lease: Lease) -> None:
        """Lets a freed lease go; it may still be looked at until `forget`, and as long as a claim refers to it."""
        self._index.remove(lease.lease_id, lease.row)
        self._count -= 1
        if not lease.claims:
            self._left.append(lease.row)

    def unclaimed(self, lease: Lease) -> None:
        """Notes that one claim less refers to a freed lease."""
        if not lease.claims:
            self._left.append(lease.row)

    def forget(self) -> None:
        """Frees rows for others: nobody looks at leases any more that are gone."""
        if not self._left:
            return
        for row in self._left:
            lease = Lease(self._columns, row)
            lease.text, lease.family, lease.owner, lease.gaps = b"", None, None, None  # type: ignore[assignment]
        self._empty += self._left
        self._left.clear()

    def _grow(self) -> None:
        """Makes rows, which begin with a row that is none's."""
        rows = len(self._columns[0])
        more = min(rows, GROWTH)
        for each in self._columns:
            each.extend(each[:1] * more)
        self._empty.extend(reversed(range(rows, rows + more)))
