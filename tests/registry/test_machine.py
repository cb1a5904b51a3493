"""Whatever owners, readers, applications and restarts do in whatever order, the promises of leasing hold."""

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kvlease.registry import endings, renewals, sessions, turns
from kvlease.registry.claims import Branch, Prefill
from kvlease.registry.endings import Selection
from kvlease.registry.lease import Conversation, EngineRef, Kind, State
from kvlease.registry.ledger import Ledger
from kvlease.registry.renewals import Renewal
from kvlease.registry.rules import Rules
from kvlease.registry.session import Session
from kvlease.registry.turns import TurnEnd, TurnOutcome
from kvlease.registry.value import LikelyReturn
from tests.registry.actors import BLOCKS, Owner, Reader
from tests.registry.digests import chain, prompt

ENGINES = st.sampled_from(["d0", "d1"])
BREAKS = st.sampled_from(
    ["registry", "registry, unannounced", "engine", "session", "unannounced", "closed", "closed for good"]
)
READERS = st.sampled_from(["p0", "p1"])
CHATS = st.sampled_from([Conversation("t1", "a"), Conversation("t1", "b"), Conversation("t2", "a")])
TICKETS = st.sampled_from(["k0", "k1", "k2"])
TEXTS = st.sampled_from(["abcd", "abcdef", "abcdefgh", "abcdXYZWij", "zzzz", "zzzzyyyyx"])
STEPS = st.sampled_from([0.1, 0.5, 0.5, 1.0, 1.0, 1.0, 2.5, 4.9, 5.0, 6.0, 61.0])
RULES = Rules(answered_ttl=8.0, tools_ttl=20.0, prefill_ttl=8.0, longest_life=60.0)
LONG_AFTER = 100_000.0


class RegistryMachine(RuleBasedStateMachine):
    """Lets the actors act on the registry's core, on time that passes only here."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.names = count()
        self.owners: dict[str, Owner] = {}
        self.readers: dict[str, Reader] = {}
        self.texts: dict[str, str] = {}
        self.over: dict[str, float] = {}
        self.states: dict[int, State] = {}

    @initialize()
    def start(self) -> None:
        self.restart()
        for engine_id in ("d0", "d1"):
            self.start_engine(engine_id)
        for engine_id in ("p0", "p1"):
            self.readers[engine_id] = Reader(EngineRef(engine_id, "r"))
            self.readers[engine_id].open(self.ledger)

    # -- the registry and time

    def restart(self) -> None:
        self.ledger = Ledger(RULES, self.now, token=lambda: f"n{next(self.names)}", value=LikelyReturn())
        self.over, self.states = {}, {}

    @rule(seconds=STEPS)
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for owner in self.owners.values():
            owner.fail_safe(self.now)
        self.ledger.advance(self.now)

    @rule(seconds=st.integers(1, 11))
    def answers_are_lost_for_a_while(self, seconds: int) -> None:
        for _ in range(seconds):
            self.everybody_beats(late=True)
            self.time_passes(1.0)

    # -- owners

    def start_engine(self, engine_id: str) -> None:
        self.owners[engine_id] = Owner(EngineRef(engine_id, f"i{next(self.names)}"))
        self.owners[engine_id].open(self.ledger, self.now)

    @rule(engine_id=ENGINES, what=BREAKS)
    def something_restarts(self, engine_id: str, what: str) -> None:
        """One rule for all of it, so that it does not happen too often."""
        owner = self.owners[engine_id]
        if what.startswith("registry"):
            self.restart()
        elif what == "engine":
            self.start_engine(engine_id)
        elif owner.credential.session_id in self.ledger.sessions and what.startswith("closed"):
            sessions.close_session(self.ledger, owner.credential)
        if what.endswith(("session", "unannounced", "closed")):
            owner.open(self.ledger, self.now, announcing=not what.endswith("unannounced"))

    @rule(late=st.booleans())
    def everybody_beats(self, *, late: bool) -> None:
        for owner in self.owners.values():
            owner.beat(self.ledger, reclaim=0, late=late, now=self.now)

    @rule(engine_id=ENGINES, reclaim=st.integers(0, 8), late=st.booleans())
    def beat(self, engine_id: str, reclaim: int, *, late: bool) -> None:
        self.owners[engine_id].beat(self.ledger, reclaim=reclaim, late=late, now=self.now)

    @rule(engine_id=ENGINES, which=st.integers(0, 5))
    def a_late_answer_arrives(self, engine_id: str, which: int) -> None:
        owner = self.owners[engine_id]
        if owner.late:
            credential, answer = owner.late.pop(which % len(owner.late))
            owner.take(credential, answer, self.now, self.ledger.rules.timing.hold)

    @rule(engine_id=ENGINES, chat=CHATS, text=TEXTS, ticket=TICKETS, blocks=st.integers(1, 6))
    def grant(self, engine_id: str, chat: Conversation, text: str, ticket: str, blocks: int) -> None:
        owner = self.owners[engine_id]
        lease_id = f"l{next(self.names)}"
        self.texts[lease_id] = text
        owner.grant(self.ledger, owner.terms(lease_id, Kind.DECODE, chat, ticket, chain(text), blocks), self.now)

    @rule(engine_id=ENGINES, ticket=TICKETS)
    def grant_prefill(self, engine_id: str, ticket: str) -> None:
        owner = self.owners[engine_id]
        terms = owner.terms(f"l{next(self.names)}", Kind.PREFILL, Conversation("t1", ""), ticket, chain("abcd"), 2)
        owner.grant(self.ledger, terms, self.now)

    @rule(engine_id=ENGINES, which=st.integers(0, 9))
    def retry_a_grant(self, engine_id: str, which: int) -> None:
        owner = self.owners[engine_id]
        if owner.held:
            owner.grant(self.ledger, list(owner.held.values())[which % len(owner.held)].terms, self.now)

    @rule(engine_id=ENGINES, which=st.integers(0, 9))
    def release(self, engine_id: str, which: int) -> None:
        owner = self.owners[engine_id]
        if owner.held:
            owner.release(self.ledger, list(owner.held)[which % len(owner.held)])

    # -- readers

    @rule(engine_id=READERS, which=st.integers(0, 9))
    def claim(self, engine_id: str, which: int) -> None:
        """Claims for a prompt that begins like one of the leases."""
        leases = [x for x in self.ledger.leases.values() if x.lease_id in self.texts]
        if leases:
            lease = leases[which % len(leases)]
            target = Branch(lease.terms.conversation, prompt(self.texts[lease.lease_id] + "more"))
            self.readers[engine_id].claim(self.ledger, f"c{next(self.names)}", target, self.now)

    @rule(engine_id=READERS, ticket=TICKETS)
    def claim_prefill(self, engine_id: str, ticket: str) -> None:
        self.readers[engine_id].claim(self.ledger, f"c{next(self.names)}", Prefill(ticket), self.now)

    @rule(engine_id=READERS, which=st.integers(0, 9), finish=st.booleans())
    def go_on_or_finish(self, engine_id: str, which: int, *, finish: bool) -> None:
        reader = self.readers[engine_id]
        if reader.reading:
            claim_id = list(reader.reading)[which % len(reader.reading)]
            if finish:
                reader.finish(self.ledger, claim_id)
            else:
                reader.renew(self.ledger, claim_id, self.now)

    # -- applications, routers, operators

    @rule(chat=CHATS)
    def renew(self, chat: Conversation) -> None:
        renewals.renew(self.ledger, chat.tenant, [Renewal(conversation_id=chat.conversation_id)])

    @rule(chat=CHATS)
    def end_conversation(self, chat: Conversation) -> None:
        endings.end_conversation(self.ledger, chat)

    @rule(ticket=TICKETS, chat=CHATS, outcome=st.sampled_from(TurnOutcome), engine_id=ENGINES)
    def end_turn(self, ticket: str, chat: Conversation, outcome: TurnOutcome, engine_id: str) -> None:
        turns.end_turn(self.ledger, TurnEnd(ticket, chat, outcome, decode=self.owners[engine_id].ref))

    @rule(engine_id=ENGINES)
    def revoke(self, engine_id: str) -> None:
        endings.revoke(self.ledger, Selection(engine_id=engine_id))

    @rule()
    def those_who_listen_have_heard(self) -> None:
        """Rows of leases that are gone become others'."""
        self.ledger.forget_changes()

    # -- what must hold

    @invariant()
    def nothing_is_freed_that_a_reader_may_believe_in(self) -> None:
        processes = {owner.ref: owner for owner in self.owners.values()}
        for reader in self.readers.values():
            for reading in reader.live(self.now):
                if reading.owner in processes:
                    assert reading.lease_id in processes[reading.owner].held

    @invariant()
    def no_claim_outlives_its_owners_promise(self) -> None:
        for claim in self.ledger.claims.values():
            if claim.lease.state is not State.FREED:
                assert claim.ends_at <= self.ledger.promised_until(claim.lease.owner)

    @invariant()
    def no_order_is_given_for_what_is_read(self) -> None:
        for session in self.ledger.sessions.values():
            for lease_id in session.orders:
                lease = self.ledger.leases.get(lease_id)
                assert lease is None or (lease.state, lease.claims) == (State.FREEING, 0)

    @invariant()
    def states_only_move_forward_and_nothing_comes_back(self) -> None:
        self.over = {key: until for key, until in self.over.items() if until > self.now}
        for lease in self.ledger.leases.values():
            assert lease.state >= self.states.get(lease.seq, State.LIVE)
            self.states[lease.seq] = lease.state
            if lease.state is State.LIVE:
                assert lease.lease_id not in self.over
                assert lease.expires_at > self.now
            else:
                self.over[lease.lease_id] = self.now + self.ledger.rules.tombstone

    @invariant()
    def budgets_are_kept(self) -> None:
        for owner in self.owners.values():
            session = self.ledger.sessions.get(owner.credential.session_id)
            if session and session.open and not owner.overfull and not self.ledger.quiet:
                live = sum(x.blocks for x in session.leases.values() if x.kind is Kind.DECODE and x.state is State.LIVE)
                assert live <= BLOCKS // 2

    @invariant()
    def conversations_have_no_more_branches_than_allowed(self) -> None:
        if not any(owner.overfull for owner in self.owners.values()):
            for chat in {x.conversation for x in self.ledger.leases.values()}:
                assert len(self.ledger.conversations.live(chat)) <= self.ledger.rules.branches

    @invariant()
    def counts_are_what_counting_gives(self) -> None:
        for session in self.ledger.sessions.values():
            counted = Session(session.credential, session.engine, session.budget, 0.0)
            for lease in session.leases.values():
                counted.tally(lease, 1)
            for name in ("live_leases", "leased_blocks", "claimed_blocks", "kept_blocks", "freeing_blocks"):
                assert getattr(session, name) == getattr(counted, name), name
        for lease in self.ledger.leases.values():
            assert lease.claims == sum(x.lease == lease for x in self.ledger.claims.values())

    def teardown(self) -> None:
        """Left alone, the registry forgets everything."""
        if not self.owners:
            return
        until = self.now + LONG_AFTER
        while self.ledger.now < until:  # very much may be due
            self.ledger.advance(until)
        for table in ("sessions", "engines", "leases", "claims", "conversations", "turns", "tenants", "gone"):
            assert not getattr(self.ledger, table), table
        assert self.ledger.timers.next() is None


RegistryMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestRegistryMachine = RegistryMachine.TestCase
