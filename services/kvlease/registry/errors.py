"""What the registry refuses. Public attributes are sent along with the message."""

from kvlease.registry.lease import EngineRef


class Refusal(Exception):
    """Something that was asked for is not done."""


class SessionNotFound(Refusal):
    """The session is unknown, was replaced, closed or reaped."""

    def __init__(self) -> None:
        super().__init__("no such session; open a new one and announce what is held")


class SecretWrong(Refusal):
    """The secret is not the session's."""

    def __init__(self) -> None:
        super().__init__("the secret is not the session's")


class NumberUnknown(Refusal):
    """An answer is acknowledged that was never sent in this session."""

    def __init__(self, number: int) -> None:
        super().__init__("no answer with this number was sent in this session")
        self.violations = (("received_number", f"is {number}, which was not sent in this session"),)


class LeaseNotFound(Refusal):
    """The lease is unknown, gone, or another tenant's."""

    def __init__(self, lease_id: str) -> None:
        super().__init__("no such lease")
        self.lease_id = lease_id


class EngineNotFound(Refusal):
    """No engine of that id has a session."""

    def __init__(self, engine_id: str) -> None:
        super().__init__("no such engine")
        self.engine_id = engine_id


class NoLease(Refusal):
    """The conversation has no lease that may be claimed."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__("the conversation has no lease that may be claimed; compute the prompt")
        self.conversation_id = conversation_id


class NoMatch(Refusal):
    """No branch of the conversation begins like the prompt."""

    def __init__(self, conversation_id: str) -> None:
        super().__init__("no branch of the conversation begins like this prompt; compute it")
        self.conversation_id = conversation_id


class PrefillFailed(Refusal):
    """Prefill's lease will not come, or has been taken back."""

    def __init__(self, ticket_id: str) -> None:
        super().__init__("prefill's KV will not come; compute the prompt")
        self.ticket_id = ticket_id


class PrefillPending(Refusal):
    """Prefill's lease is not there yet."""

    def __init__(self, ticket_id: str) -> None:
        super().__init__("prefill's KV is not there yet; ask again")
        self.ticket_id = ticket_id


class IncarnationMismatch(Refusal):
    """The handle is not of the session's engine as it runs now."""

    def __init__(self, handle: EngineRef, session: EngineRef) -> None:
        super().__init__("the handle is of another engine or incarnation than the session")
        self.handle_engine_id, self.handle_incarnation = handle
        self.session_engine_id, self.session_incarnation = session


class TurnOver(Refusal):
    """Nothing is granted for the turn any more."""

    def __init__(self, ticket_id: str) -> None:
        super().__init__("the turn is over; free the blocks")
        self.ticket_id = ticket_id


class ClaimLost(Refusal):
    """The claim is over."""

    def __init__(self, claim_id: str) -> None:
        super().__init__("the claim is over; what was read under it must not be used")
        self.claim_id = claim_id


class BudgetExhausted(Refusal):
    """Over the engine's retention budget, and nothing can go."""

    def __init__(self, *, wanted: int, budget: int, retry_after: float) -> None:
        super().__init__("over the engine's retention budget and nothing can go; free the blocks")
        self.wanted_blocks = wanted
        self.budget_blocks = budget
        self.retry_after = retry_after


class TenantLimit(Refusal):
    """The tenant has as many live leases as it may."""

    def __init__(self, *, limit: int, retry_after: float) -> None:
        super().__init__("the tenant has as many live leases as it may; free the blocks")
        self.limit = limit
        self.retry_after = retry_after


class IdTaken(Refusal):
    """The id belongs to another owner, or was used with other contents."""

    def __init__(self, kind: str, given: str) -> None:
        super().__init__(f"the {kind} id belongs to another engine, or was used with other contents")
        self.id = given


class PromiseTooShort(Refusal):
    """The owner's heartbeats are late: it may free its blocks too soon."""

    def __init__(self, engine_id: str) -> None:
        super().__init__("the owner cannot promise its blocks long enough now; ask again, or compute")
        self.engine_id = engine_id


class WatcherTooSlow(Refusal):
    """Events came faster than the watcher took them."""

    def __init__(self, limit: int) -> None:
        super().__init__("events come faster than they are read; watch again")
        self.limit = limit


class StoreUnreachable(Refusal):
    """What the registries share is not to be had now; it may or may not have been done."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{why}; call again")
