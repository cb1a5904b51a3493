"""What scripts answer, as values of the domain."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kvlease.registry import errors
from kvlease.registry.errors import Refusal
from kvlease.registry.lease import EngineRef, Reason, State, StopReason
from kvlease.registry.lists import Branch, EngineShown
from kvlease.registry.redis import questions
from kvlease.registry.session import Engine
from kvlease.registry.shown import Shown

REFUSALS: Mapping[str, Callable[..., Refusal]] = MappingProxyType(
    {
        "SessionNotFound": errors.SessionNotFound,
        "SecretWrong": errors.SecretWrong,
        "NumberUnknown": lambda number: errors.NumberUnknown(int(number)),
        "LeaseNotFound": errors.LeaseNotFound,
        "EngineNotFound": errors.EngineNotFound,
        "NoLease": errors.NoLease,
        "NoMatch": errors.NoMatch,
        "PrefillFailed": errors.PrefillFailed,
        "PrefillPending": errors.PrefillPending,
        "IncarnationMismatch": lambda a, b, c, d: errors.IncarnationMismatch(EngineRef(a, b), EngineRef(c, d)),
        "TurnOver": errors.TurnOver,
        "ClaimLost": errors.ClaimLost,
        "BudgetExhausted": lambda wanted, budget, after: errors.BudgetExhausted(
            wanted=int(wanted), budget=int(budget), retry_after=float(after)
        ),
        "TenantLimit": lambda limit, after: errors.TenantLimit(limit=int(limit), retry_after=float(after)),
        "IdTaken": errors.IdTaken,
        "PromiseTooShort": errors.PromiseTooShort,
    }
)


def refusal(name: str, parts: Sequence[bytes]) -> Refusal:
    """What an operation was refused with."""
    return REFUSALS[name](*(x.decode() for x in parts))


def shown(given: Sequence[Any]) -> Shown:
    """A lease."""
    told, seq, generation, stop_reason, state, reason, remaining, age, idle, claims, digests, body = given
    return Shown(
        terms=questions.terms(told, digests, body),
        seq=int(seq),
        generation=int(generation),
        stop_reason=StopReason(stop_reason),
        state=State(state),
        reason=Reason(reason),
        remaining=float(remaining),
        age=float(age),
        idle=float(idle),
        claims=int(claims),
    )


def branch(given: Sequence[bytes]) -> Branch:
    """A branch of a conversation."""
    engine_id, incarnation, tokens, generation = given
    return Branch(EngineRef(engine_id.decode(), incarnation.decode()), int(tokens), int(generation))


def engine(given: Sequence[Any]) -> EngineShown:
    """An engine and its session."""
    engine_id, incarnation, models, blocks, profile, load, healthy, draining, silent, *counts = given
    leases, leased, claimed, budget = counts
    ref = EngineRef(engine_id.decode(), incarnation.decode())
    return EngineShown(
        engine=Engine(ref, tuple(x.decode() for x in models), int(blocks), profile),
        load=load,
        healthy=bool(healthy),
        draining=bool(draining),
        silent=float(silent),
        leases=int(leases),
        leased_blocks=int(leased),
        claimed_blocks=int(claimed),
        budget=int(budget),
    )
