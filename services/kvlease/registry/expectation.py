"""The policy that learns each conversation's habits."""

from kvlease.registry.gaps import GUESS, Experience, Gaps
from kvlease.registry.habits import LIMIT, Habits, Wait
from kvlease.registry.lease import Conversation
from kvlease.registry.leases import Lease
from kvlease.registry.value import Unlearned

UNKNOWN = Gaps(GUESS)
"""What is expected of leases that nothing was told of."""
SIZES = 20_000
"""Leases over which the mean size is taken."""


class ExpectedReturn(Unlearned):
    """Weighs the next turns to be expected per second of keeping against the blocks that are kept.

    Every return counts the same, however long the prompt: a user waits for turns, not for tokens. What is expected of a
    lease follows from how long it has waited and from the gaps that its conversation, and others with like habits, left
    before: they are noticed even when their lease is gone by then.
    """

    def __init__(self, *, patience: float = 0.0, limit: int = LIMIT) -> None:
        """Knows nothing. Leases live while a return is worth `patience` seconds of a lease of mean size; 0: by rule."""
        self._patience = patience
        self._experience = Experience()
        self._habits = Habits(limit)
        self._sizes = 0
        self._mean_blocks = 0.0

    def worth(self, lease: Lease, now: float) -> float:
        gaps = lease.gaps or UNKNOWN
        return gaps.worth(now - lease.granted_at) / max(1, lease.blocks)

    def life(self, lease: Lease) -> float | None:
        if not self._patience:
            return None
        gaps = lease.gaps or UNKNOWN
        return gaps.pays_until(lease.blocks / (self._mean_blocks * self._patience))

    def granted(self, lease: Lease) -> None:
        new, now = lease.gaps is None, lease.granted_at
        habit = self._habits.shown(lease.conversation, now)
        for wait in self._habits.forgotten(now):
            self._experience.observe(wait.traits, now - wait.since, came=False)
        if new:
            habit.answered(now)
            self._measure(lease.blocks)
        traits = habit.traits(lease.stop_reason, lease.tokens)
        lease.gaps = self._experience.gaps(traits)
        if new or (habit.wait and habit.wait.since == now):
            habit.wait = Wait(now, traits)

    def came(self, conversation: Conversation, now: float) -> None:
        habit = self._habits.known(conversation)
        if habit and (wait := habit.came(now)):
            self._experience.observe(wait.traits, now - wait.since, came=True)

    def ended(self, conversation: Conversation) -> None:
        if habit := self._habits.known(conversation):
            habit.wait = None

    def _measure(self, blocks: int) -> None:
        self._sizes = min(SIZES, self._sizes + 1)
        self._mean_blocks += (blocks - self._mean_blocks) / self._sizes
