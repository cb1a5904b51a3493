"""All that the registry knows. Knows no clock, no store and no transport itself.

Time comes in through `advance`; everything that time brings about happens there, in order. Beside it stand look-ups and
what is forgotten when. How leases move is in `life`; each group of operations has a module of its own.
"""

from collections.abc import Callable
from hmac import compare_digest

from kvlease.registry.change import Change, Event, Topic
from kvlease.registry.conversations import Conversations
from kvlease.registry.errors import SecretWrong, SessionNotFound
from kvlease.registry.lease import Claim, Conversation, EngineRef
from kvlease.registry.leases import Lease, Leases
from kvlease.registry.roll import Roll
from kvlease.registry.rules import Rules
from kvlease.registry.session import Credential, Session
from kvlease.registry.timers import Timers
from kvlease.registry.turn import Turn
from kvlease.registry.value import Value

AT_ONCE = 128
"""Things that may fall due before those who call are served again: about a millisecond's work."""


class Ledger:
    """Sessions, leases, claims, conversations and turns, at the instant `now`."""

    def __init__(self, rules: Rules, now: float, *, token: Callable[[], str], value: Value) -> None:
        """Starts empty at an instant. `token` makes random names; `value` says which lease goes first."""
        self.rules = rules
        self.now = now
        self.token = token
        self.value = value
        self.boot_id = token()
        self.quiet_until = now + rules.timing.claim
        self.rejoin_until = now + rules.timing.hold
        """Until then an engine that is not there may have a session from a life before, and come back."""
        self.sessions: dict[str, Session] = {}
        self.engines: dict[str, list[Session]] = {}
        """Sessions by engine id, the newest last; the others are over but not reaped yet."""
        self.leases = Leases()
        self.claims: dict[str, Claim] = {}
        self.conversations = Conversations(self.leases)
        self.turns: dict[str, Turn] = {}
        self.tenants: dict[str, Roll] = {}
        self.gone: dict[str, tuple[EngineRef, float]] = {}
        """Owners of leases that are freed, and until when that is remembered."""
        self.stood_still = (now, now)
        """When this process last stood still, from and to: engines are not to blame for what it has not read."""
        self.timers = Timers()
        self.changes: list[Change] = []
        self.touched: list[Topic] = []
        self._seq = 0

    def advance(self, now: float) -> None:
        """Lets happen what is due by then. An earlier instant than before changes nothing.

        If very much is due, time stops on the way, before what is left, and goes on with the next call. So nobody waits
        for all of it, and whoever is served meanwhile is served as of that instant, at which nothing is overdue.
        """
        left = AT_ONCE
        while (when := self.timers.next()) is not None and when <= now:
            if left <= 0 and when > self.now:
                return
            self.now = max(self.now, when)
            self.timers.run(self)
            left -= 1
        self.now = max(self.now, now)

    @property
    def quiet(self) -> bool:
        """Whether claims of a life before may still be live: nobody may be told to free anything."""
        return self.now < self.quiet_until

    def next_seq(self) -> int:
        """Numbers leases by arrival."""
        self._seq += 1
        return self._seq

    def forget_changes(self) -> None:
        """Lets go of what was told, once it was passed on."""
        self.changes.clear()
        self.touched.clear()
        self.leases.forget()

    def tell(self, event: Event, lease: Lease) -> None:
        """Notes an event for those who watch and wait."""
        self.changes.append(Change(event, lease, lease.state, lease.reason))

    def promised_until(self, session: Session) -> float:
        """Until when the owner surely keeps its blocks, whatever happens: no claim lasts longer."""
        return session.promised_until(self.rules.timing.hold - self.rules.timing.margin)

    def session(self, credential: Credential) -> Session:
        """Returns the caller's open session; who knows its secret has received answer 0. Raises as `any_session`."""
        session = self.any_session(credential)
        if not session.open:
            raise SessionNotFound
        session.acknowledge(0)
        return session

    def held(self, session: Session, lease_id: str) -> Lease | None:
        """Returns a lease that the session's owner holds; None if it does not."""
        lease = self.leases.get(lease_id)
        return lease if lease is not None and lease.owner is session else None

    def any_session(self, credential: Credential) -> Session:
        """Returns the caller's session, even if over but not reaped. Raises SessionNotFound, SecretWrong."""
        session = self.sessions.get(credential.session_id)
        if session is None:
            raise SessionNotFound
        if not compare_digest(session.credential.secret.encode(), credential.secret.encode()):
            raise SecretWrong
        return session

    def forget_in_time(self, conversation: Conversation) -> None:
        """Lets a conversation be forgotten a while from now, unless it has leases then."""
        until = self.now + self.rules.tombstone
        if self.conversations.remember(conversation, until):
            self.timers.at(until, _forget_conversation, conversation)

    def turn(self, ticket_id: str) -> Turn:
        """Returns what is known of a turn; starts to remember it."""
        known = self.turns.get(ticket_id)
        if known is None:
            known = self.turns[ticket_id] = Turn()
            self.forget_turn_in(ticket_id, self.rules.turn_memory)
        return known

    def forget_turn_in(self, ticket_id: str, seconds: float) -> None:
        """Sets how long a turn is still remembered."""
        self.turns[ticket_id].forget_at = self.now + seconds
        self.timers.at(self.now + seconds, _forget_turn, ticket_id)

    def not_due(self, conversation: Conversation, ticket_id: str) -> None:
        """Takes note that a turn's grant came, or will not come: nobody need wait for it."""
        if self.conversations.not_due(conversation, ticket_id):
            self.touched.append(("conversation", conversation))

    def bury(self, lease_id: str, owner: EngineRef) -> None:
        """Remembers for a while that a lease is gone, so that it cannot come back."""
        until = self.now + self.rules.tombstone
        self.gone[lease_id] = (owner, until)
        self.timers.at(until, _forget_gone, lease_id)


# Of a conversation, one timer at most is set: where it finds a later time it goes on to that. For others each change of
# a time to forget sets a timer of its own: one that finds a later time leaves the matter to that.


def _forget_conversation(ledger: Ledger, conversation: Conversation) -> None:
    again = ledger.conversations.look(conversation, ledger.now)
    if again is not None:
        ledger.timers.at(again, _forget_conversation, conversation)


def _forget_turn(ledger: Ledger, ticket_id: str) -> None:
    known = ledger.turns.get(ticket_id)
    if known is not None and known.forget_at <= ledger.now:
        del ledger.turns[ticket_id]


def _forget_gone(ledger: Ledger, lease_id: str) -> None:
    if lease_id in ledger.gone and ledger.gone[lease_id][1] <= ledger.now:
        del ledger.gone[lease_id]
