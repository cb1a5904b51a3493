"""The seam between the RPCs and what keeps the registry's state: one operation per RPC.

Stores own time: nothing that comes in or goes out is an instant, and every length says from when it counts. Operations
are atomic. They raise the refusals of `errors`. Calls that wait never hold a thread.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Protocol

from kvlease.registry.announcements import Announced, Announcement
from kvlease.registry.claims import Claimed, Target
from kvlease.registry.endings import Selection
from kvlease.registry.feed import Happened
from kvlease.registry.grants import Granted
from kvlease.registry.lease import Conversation, Terms
from kvlease.registry.lists import Branch, EngineShown, Filter, Page
from kvlease.registry.renewals import Renewal, Renewed
from kvlease.registry.session import Credential, Engine
from kvlease.registry.sessions import Answer, Beat, Opened
from kvlease.registry.shown import Shown
from kvlease.registry.turns import TurnEnd


class Store(Protocol):
    """Sessions, leases and claims. What each operation does, its RPC says in registry.proto."""

    async def open_session(self, engine: Engine) -> Opened:
        """Opens or replaces a session; counts as answer 0."""

    async def heartbeat(self, credential: Credential, beat: Beat) -> Answer:
        """Keeps a session alive; answers with orders."""

    async def close_session(self, credential: Credential) -> None:
        """Ends a session."""

    async def announce(self, credential: Credential, leases: Sequence[Announced]) -> list[Announcement]:
        """Takes leases that the owner still holds; one result each."""

    async def grant(self, credential: Credential, terms: Terms, report: bytes | None) -> Granted:
        """Grants a lease."""

    async def renew(self, tenant: str, renewals: Sequence[Renewal]) -> list[Renewed]:
        """Renews leases of a tenant; one result each."""

    async def release(self, credential: Credential, lease_id: str, wait: float) -> bool:
        """Gives a lease back, waiting so many seconds for its last claim. False: still claimed, an order follows."""

    async def release_all(self, credential: Credential, wait: float) -> tuple[list[str], list[str]]:
        """Gives all leases back, likewise; returns those released and those still claimed."""

    async def end_conversation(self, conversation: Conversation) -> int:
        """Ends a conversation; returns how many leases were live."""

    async def claim(self, credential: Credential, claim_id: str, target: Target, wait: float) -> Claimed:
        """Claims a lease, waiting so many seconds for one that is due."""

    async def renew_claim(self, credential: Credential, claim_id: str) -> float:
        """Renews a claim; returns the seconds that it lasts from now."""

    async def finish_claim(self, credential: Credential, claim_id: str) -> str | None:
        """Ends a claim; returns the lease that it was on, if it was known."""

    async def end_turn(self, end: TurnEnd) -> bytes | None:
        """Tells how a turn ended; returns prefill's report, if there is one."""

    async def drain(self, engine_id: str, *, undo: bool) -> None:
        """Takes an engine out of what routers choose from, or puts it back."""

    async def revoke(self, selection: Selection) -> int:
        """Revokes leases; returns how many were live."""

    async def get(self, tenant: str, lease_id: str) -> Shown:
        """Shows a lease."""

    async def page(self, wanted: Filter, after: int, size: int, *, whole: bool = False) -> Page:
        """Shows a page of leases; their handles may lack digests and bodies if not `whole`."""

    async def locate(self, conversations: Sequence[Conversation]) -> list[list[Branch]]:
        """Tells where conversations are held."""

    def watch(self, wanted: Filter) -> AsyncGenerator[Happened]:
        """Gives what exists, SYNCED, then what happens."""

    def follow(self) -> AsyncGenerator[Happened]:
        """Gives what happens to all tenants' leases from now on; raises what watches raise."""

    async def engines(self, model: str, *, include_lost: bool) -> list[EngineShown]:
        """Shows engines."""

    def stop_waiting(self, error: Callable[[], Exception]) -> None:
        """Ends every wait and watch with an error, those to come included."""
