"""A registry's store in this process, with engines and many leases; no transport: what is measured is the table."""

import itertools
import secrets
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from kvlease.registry.announcements import Announced
from kvlease.registry.chain import DIGEST, Chain, Prompt
from kvlease.registry.claims import Branch, Claimed
from kvlease.registry.lease import Conversation, EngineRef, Handle, Kind, StopReason, Terms
from kvlease.registry.memory import MemoryStore
from kvlease.registry.rules import Rules
from kvlease.registry.session import Credential, Engine
from kvlease.registry.sessions import Beat
from kvlease.registry.value import LeastRecentlyRenewed

STRIDES = 8
STRIDE = 128
BODY = 64  # bytes; the handle's own are not counted, so there may be few
BLOCKS = 1 << 40
STEP = 0.02  # seconds
T = TypeVar("T")


def done(call: Coroutine[Any, Any, T]) -> T:
    """Runs a call that has nothing to wait for."""
    try:
        call.send(None)
    except StopIteration as result:
        return result.value  # type: ignore[no-any-return]
    raise RuntimeError("the call waits")


class World:
    """One store, and its engines by name. Time is the test's."""

    def __init__(self) -> None:
        self.now = 0.0
        rules = Rules(retention=1.0, longest_life=1e6)
        self.store = MemoryStore(
            rules,
            clock=lambda: self.now,
            sleep=_never,
            token=lambda: secrets.token_hex(16),
            value=LeastRecentlyRenewed(),
            watch_limit=1,
        )
        self._numbers = itertools.count()
        self._received: dict[Credential, int] = {}

    def passes(self, seconds: float) -> None:
        """Lets time pass as it does in a process: little by little."""
        for _ in range(round(seconds / STEP)):
            self.now += STEP
            self.store.advance()

    def engine(self, name: str) -> tuple[EngineRef, Credential]:
        """Opens a session."""
        ref = EngineRef(name, "1")
        credential = done(self.store.open_session(Engine(ref, ("model",), BLOCKS, b""))).credential
        self._received[credential] = 0
        return ref, credential

    def beat(self, credential: Credential) -> float:
        """Sends a heartbeat that tells the last answer's receipt; returns the seconds that it took."""
        beat = Beat(received=self._received[credential])
        begun = time.perf_counter()
        answer = done(self.store.heartbeat(credential, beat))
        took = time.perf_counter() - begun
        self._received[credential] = answer.number
        return took

    def hold(self, ref: EngineRef, credential: Credential, count: int, remaining: float) -> int:
        """Lets an engine hold so many leases more, each of a conversation; returns the bytes of their handles."""
        own = 0
        for start in range(0, count, 256):
            leases = [self._announced(ref, remaining) for _ in range(min(256, count - start))]
            own += sum(len(x.terms.handle.body) for x in leases)
            own += sum(len(x.terms.handle.chain.digests) for x in leases)
            done(self.store.announce(credential, leases))
            self.now += 1e-4  # no two calls come at the same instant
        return own

    def close(self, credential: Credential) -> None:
        """Ends a session."""
        done(self.store.close_session(credential))

    def claim(self, credential: Credential, number: int) -> tuple[float, Claimed]:
        """Claims a conversation's lease; returns the seconds that it took, and the claim. Ends it."""
        claim_id, target = f"claim {next(self._numbers)}", Branch(_conversation(number), _PROMPT)
        begun = time.thread_time()  # others on this machine are not the table's fault
        claimed = done(self.store.claim(credential, claim_id, target, 0.0))
        took = time.thread_time() - begun
        done(self.store.finish_claim(credential, claim_id))
        return took, claimed

    def _announced(self, ref: EngineRef, remaining: float) -> Announced:
        number = next(self._numbers)
        body = number.to_bytes(BODY, "little")
        handle = Handle(
            ref, f"cmpl-{number:032x}-0", 8, Chain(_KEY, STRIDE, STRIDES * STRIDE, _digests()), body, "nixl/1"
        )
        terms = Terms(f"{number:032x}", Kind.DECODE, _conversation(number), "", "", handle, StopReason.TOOLS_CALLED)
        return Announced(terms, 0, remaining)


_KEY = "0123456789abcdef"
_PROMPT = Prompt(_KEY, STRIDE, tuple(range(1, STRIDES + 1)), bytes(DIGEST * STRIDES))


def _digests() -> bytes:
    return bytes(bytearray(DIGEST * STRIDES))  # each has its own


def _conversation(number: int) -> Conversation:
    return Conversation("default", f"conversation {number:024x}")


async def _never(_seconds: float) -> None:
    raise RuntimeError("nothing here waits")
