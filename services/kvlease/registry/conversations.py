"""What is known of conversations: their leases, and what is to be remembered beside them."""

from dataclasses import dataclass

from kvlease.registry.index import Index
from kvlease.registry.lease import Conversation, Kind, State
from kvlease.registry.leases import Lease, Leases


@dataclass(slots=True)
class Beside:
    """What the leases of a conversation do not tell; of most there is nothing."""

    generation: int = 0
    """The highest number so far, if none of its leases has it."""
    due: tuple[tuple[str, float], ...] = ()
    """Turns whose grant is due: the ticket's id, and until when."""
    forget_at: float = 0.0
    timed: bool = False
    """Whether a timer looks at it."""


class Conversations:
    """Conversations that have leases, whatever their kind, until they are freed, and what is remembered of others."""

    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self._newest = Index()
        """Each conversation's newest lease, which knows the older ones."""
        self._leased = 0
        self._found: tuple[Conversation | None, Lease | None] = (None, None)
        """The conversation looked for last and its newest lease: one call asks for it several times."""
        self._beside: dict[Conversation, Beside] = {}

    def __len__(self) -> int:
        return self._leased + len(self._beside)

    def leases(self, conversation: Conversation) -> list[Lease]:
        """A conversation's leases, oldest first."""
        found = []
        lease = self._find(conversation)
        while lease is not None:
            found.append(lease)
            lease = lease.sibling
        found.reverse()
        return found

    def live(self, conversation: Conversation) -> list[Lease]:
        """The branches: DECODE leases that are live, oldest first."""
        return [x for x in self.leases(conversation) if x.state is State.LIVE and x.kind is Kind.DECODE]

    def number(self, conversation: Conversation, wanted: int = 0) -> int:
        """Numbers a lease: as wanted, unless a live branch has that number, or with the next."""
        if wanted and all(x.generation != wanted for x in self.live(conversation)):
            return wanted
        beside = self._beside.get(conversation)
        return max(_highest(self.leases(conversation)), beside.generation if beside else 0) + 1

    def add(self, conversation: Conversation, lease: Lease) -> None:
        """Takes a conversation's newest lease."""
        newest = lease.sibling = self._find(conversation)
        if newest is None:
            self._newest.add(conversation, lease.row)
            self._leased += 1
        else:
            self._newest.replace(conversation, newest.row, lease.row)
        self._found = (conversation, lease)
        self._tidy(conversation)

    def remove(self, conversation: Conversation, lease: Lease) -> None:
        """Lets a lease go, and remembers its number."""
        leases = self.leases(conversation)
        at = leases.index(lease)
        if at + 1 < len(leases):
            leases[at + 1].sibling = lease.sibling
        elif at:
            self._newest.replace(conversation, lease.row, leases[at - 1].row)
        else:
            self._newest.remove(conversation, lease.row)
            self._leased -= 1
        self._found = (None, None)
        del leases[at]
        if lease.generation > _highest(leases):
            beside = self._beside.setdefault(conversation, Beside())
            beside.generation = max(beside.generation, lease.generation)

    def mark_due(self, conversation: Conversation, ticket_id: str, until: float) -> None:
        """Lets claims wait for a turn's grant."""
        self._beside.setdefault(conversation, Beside()).due += ((ticket_id, until),)

    def not_due(self, conversation: Conversation, ticket_id: str) -> bool:
        """Takes a turn out of those whose grant is due; false if it was not among them."""
        beside = self._beside.get(conversation)
        if beside is None or all(ticket != ticket_id for ticket, _ in beside.due):
            return False
        beside.due = tuple(x for x in beside.due if x[0] != ticket_id)
        self._tidy(conversation)
        return True

    def due(self, conversation: Conversation) -> list[str]:
        """The turns whose grant is due, or was and never came."""
        beside = self._beside.get(conversation)
        return [ticket for ticket, _ in beside.due] if beside else []

    def due_until(self, conversation: Conversation, now: float) -> float | None:
        """Until when a grant is due at most; None when none is."""
        beside = self._beside.get(conversation)
        if beside is None:
            return None
        beside.due = tuple(x for x in beside.due if x[1] > now)
        return max((until for _, until in beside.due), default=None)

    def remember(self, conversation: Conversation, until: float) -> bool:
        """Sets until when a conversation without leases is remembered; tells whether a timer must be set to `look`."""
        if self._find(conversation) is not None:
            return False
        beside = self._beside.setdefault(conversation, Beside())
        beside.forget_at = until
        was_timed, beside.timed = beside.timed, True
        return not was_timed

    def look(self, conversation: Conversation, now: float) -> float | None:
        """Forgets what is to be forgotten by now; returns when to look again, if a timer must be set for that."""
        beside = self._beside[conversation]
        beside.due = tuple(x for x in beside.due if x[1] > now)
        leased = self._find(conversation) is not None
        if not leased and beside.forget_at > now:
            return beside.forget_at
        beside.timed = False
        if leased:
            self._tidy(conversation)
        else:
            del self._beside[conversation]
        return None

    def _find(self, conversation: Conversation) -> Lease | None:
        """Its newest lease."""
        if self._found[0] is conversation:
            return self._found[1]
        found = None
        for row in self._newest.rows(conversation):
            lease = self._leases.row(row)
            if lease.belongs_to(conversation):
                found = lease
        self._found = (conversation, found)
        return found

    def _tidy(self, conversation: Conversation) -> None:
        """Forgets what the leases of a conversation tell by themselves."""
        beside = self._beside.get(conversation)
        if beside and not (beside.due or beside.timed) and beside.generation <= _highest(self.leases(conversation)):
            del self._beside[conversation]


def _highest(leases: list[Lease]) -> int:
    return max((x.generation for x in leases), default=0)
