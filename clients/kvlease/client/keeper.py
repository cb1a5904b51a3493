"""The thread that renews what a client holds.

A thread of its own over a channel for threads, so that a program whose event loop is busy or blocked does not lose
its conversations. It runs only while something is held.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence

from kvlease.client import convert, requests
from kvlease.client.caller import Caller
from kvlease.client.errors import AnswerBroken, ClientClosed, EngineUnreachable, KvleaseError
from kvlease.client.renewal import ENGINE_LOST, Hold, RenewalPlan, call_timeout
from kvlease.client.types import Renewal
from kvlease.v1.registry_pb2_grpc import RegistryServiceStub

log = logging.getLogger(__name__)

Clock = Callable[[], float]


class Keeper:
    """Renews holds in batches."""

    def __init__(
        self,
        registry: Caller[RegistryServiceStub],
        *,
        clock: Clock = time.monotonic,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Keeps what it needs; starts nothing."""
        self.clock = clock
        self._registry = registry
        self._plan = RenewalPlan(chance)
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, hold: Hold, first: Renewal | None, sent_at: float) -> None:
        """Renews *hold* from now on. *first* is what its first renewal, sent at *sent_at*, gave; None: no answer."""
        with self._changed:
            self._plan.add(hold)
            if first is not None:
                self._plan.answered([(hold, first)], sent_at, self.clock())
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="kvlease-keeper", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, hold: Hold) -> None:
        """Lets go of *hold*: it is not renewed any more."""
        with self._changed:
            self._plan.remove(hold)
            self._changed.notify()

    def expect(self, hold: Hold) -> None:
        """Renews *hold* at once: a turn of it has ended, and its lease is due."""
        with self._changed:
            self._plan.soon(hold, self.clock())
            self._changed.notify()

    def doubt(self, conversation_id: str | None = None) -> None:
        """Counts a conversation as not held until it is found again: it was ended. None: any may have been."""
        with self._changed:
            self._plan.doubt(self.clock(), conversation_id)
            self._changed.notify()

    def failed(self, hold: Hold, error: KvleaseError) -> None:
        """Takes that a turn of *hold* failed: asks how its lease is, unless its engine may be gone with it."""
        with self._changed:
            now = self.clock()
            if isinstance(error, EngineUnreachable | AnswerBroken):
                self._plan.doubt(now, hold.conversation_id, until=now + ENGINE_LOST)
            else:
                self._plan.soon(hold, now)
            self._changed.notify()

    def close(self) -> None:
        """Lets go of all, closes the channel, and waits for the thread to end."""
        with self._changed:
            thread = self._thread
            self._plan.clear()
            self._changed.notify()
        self._registry.close()
        if thread is not None:
            thread.join()

    def renew(self, holds: Sequence[Hold]) -> list[Renewal]:
        """Asks the registry once."""
        renewals: list[Renewal] = []
        for request in requests.renew_holds(holds):
            response = self._registry.call(self._registry.stub.RenewLeases, request, timeout=call_timeout(holds))
            renewals += convert.renewals(request, response)
        return renewals

    def _run(self) -> None:
        while holds := self._next():
            sent_at = self.clock()
            try:
                renewals = self.renew(holds)
            except ClientClosed:
                continue  # nothing is held any more
            except KvleaseError as error:
                self._failed(holds, error)
            else:
                self._answered(holds, renewals, sent_at)

    def _next(self) -> list[Hold]:
        """Waits until something is due; gives nothing, and the thread ends, when nothing is held."""
        with self._changed:
            while (wait := self._plan.wait(self.clock())) is not None:
                if due := self._plan.due(self.clock()):
                    return due
                self._changed.wait(wait)
            self._thread = None
            return []

    def _answered(self, holds: Sequence[Hold], renewals: Sequence[Renewal], sent_at: float) -> None:
        with self._changed:
            lost = self._plan.answered(zip(holds, renewals, strict=True), sent_at, self.clock())
        for hold in lost:
            log.warning("conversation %r has lost its lease", hold.conversation_id)

    def _failed(self, holds: Sequence[Hold], error: KvleaseError) -> None:
        """Tries again soon. Logs the first failure of a row, not each."""
        if any(hold.failures == 0 for hold in holds):
            log.warning("renewal of %d conversations failed, trying again: %s", len(holds), error)
        with self._changed:
            self._plan.failed(holds, self.clock())
