"""Where a conversation's KV is, as far as can be known in time."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import structlog

from kvlease.router.engine import EngineKey
from kvlease.router.errors import RegistryUnreachable
from kvlease.router.registry import Branch, Registry, RegistryRefused

log = structlog.get_logger()


class Holding(NamedTuple):
    """What is held of a conversation. `holder` may be known from its last turn alone, then with 0 tokens."""

    holder: EngineKey | None
    tokens: int = 0
    generation: int = 0
    reachable: bool = True
    """Whether the registry answered."""
    new: bool = False
    """Whether it is the first turn of the conversation, as far as registry and router know."""


def best(branches: Sequence[Branch], prompt_tokens: int) -> Branch:
    """Returns the branch that a prompt of this size (0: unknown) most likely goes on from.

    That is the newest of those that hold as much as the prompt can use: a side call's short branch does not hide the
    main thread's, and after a history was cut its old long branch does not hide the new one.
    """
    usable = prompt_tokens or max(branch.tokens for branch in branches)
    return max(branches, key=lambda branch: (min(branch.tokens, usable), branch.generation))


class Holdings:
    """Asks the registry, and remembers where each conversation's last turns went for when it knows nothing."""

    def __init__(self, registry: Registry, *, capacity: int) -> None:
        """Remembers at most *capacity* conversations, those used last."""
        self._registry = registry
        self._capacity = capacity
        self._last: OrderedDict[tuple[str, str], EngineKey] = OrderedDict()

    async def find(self, tenant: str, conversation_id: str, prompt_tokens: int, wait: float) -> Holding:
        """Returns what is held; raises nothing: who knows nothing routes by load."""
        last = self._last.get((tenant, conversation_id))
        try:
            branches = await self._registry.branches(tenant, conversation_id, wait)
        except RegistryUnreachable:
            return Holding(last, reachable=False)
        except RegistryRefused as error:
            log.warning("leases not listed", tenant=tenant, error=str(error))
            return Holding(last)
        if not branches:
            return Holding(last, new=last is None)
        branch = best(branches, prompt_tokens)
        return Holding(branch.holder, branch.tokens, max(b.generation for b in branches))

    def remember(self, tenant: str, conversation_id: str, decode: EngineKey) -> None:
        """Notes where the conversation's turn went."""
        self._last[tenant, conversation_id] = decode
        self._last.move_to_end((tenant, conversation_id))
        if len(self._last) > self._capacity:
            self._last.popitem(last=False)
