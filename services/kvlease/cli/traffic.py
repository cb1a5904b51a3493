"""What a gateway counts, and what happened between two looks at it; or what a router remembers. Pure."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from kvlease.client.types import Ticket, TicketState
from kvlease.rpc.telemetry import NO_MISSES

_PREFIX = "kvlease_gateway_"
KeyT = TypeVar("KeyT")


@dataclass(frozen=True, slots=True)
class Counters:
    """A gateway's counters at one moment; all at zero when it starts."""

    requests: float = 0.0
    in_flight: float = 0.0
    tokens: Mapping[str, float] = field(default_factory=dict)
    """Of prompts, by how prefill came by their KV: reused, local, computed."""
    misses: Mapping[str, float] = field(default_factory=dict)
    """Turns, by why they reused less than they might have."""
    first_bytes: Mapping[float, float] = field(default_factory=dict)
    """Streams whose first byte came within so many seconds of the request."""

    @classmethod
    def of(cls, exposition: str) -> "Counters":
        """Reads Prometheus' text format; what is not there counts as zero. Raises ValueError for another text."""
        from prometheus_client.parser import text_string_to_metric_families  # noqa: PLC0415 - only where it is read

        tokens: dict[str, float] = {}
        misses: dict[str, float] = {}
        buckets: dict[float, float] = {}
        requests = in_flight = 0.0
        for family in text_string_to_metric_families(exposition):
            for name, labels, value, *_ in family.samples:
                match name.removeprefix(_PREFIX):
                    case "requests_total" if labels.get("route", "").startswith("/v1/"):
                        requests += value
                    case "in_flight":
                        in_flight = max(0.0, value - 1)  # the one that asked for this
                    case "prompt_tokens_total":
                        _add(tokens, labels.get("source", ""), value)
                    case "misses_total":
                        _add(misses, labels.get("reason", ""), value)
                    case "first_byte_seconds_bucket":
                        _add(buckets, float(labels["le"]), value)
        return cls(requests, in_flight, tokens, misses, buckets)


@dataclass(frozen=True, slots=True)
class Traffic:
    """What happened in so many *seconds*. None: nothing that would tell."""

    seconds: float
    requests: float
    in_flight: float
    tokens: Mapping[str, float]
    misses: Mapping[str, float]
    ttft_median: float | None
    ttft_p95: float | None

    @property
    def reuse(self) -> float | None:
        """Share of the prompts' tokens that prefill did not compute."""
        whole = sum(self.tokens.values())
        return 1 - self.tokens.get("computed", 0.0) / whole if whole else None


def between(old: Counters, new: Counters, seconds: float) -> Traffic:
    """Says what happened between two looks; a gateway that was started again meanwhile counts from its start."""
    if new.requests < old.requests:
        old = Counters()
    first_bytes = {le: count - old.first_bytes.get(le, 0.0) for le, count in new.first_bytes.items()}
    return Traffic(
        seconds=seconds,
        requests=new.requests - old.requests,
        in_flight=new.in_flight,
        tokens=_grown(old.tokens, new.tokens),
        misses=_grown(old.misses, new.misses),
        ttft_median=quantile(first_bytes, 0.5),
        ttft_p95=quantile(first_bytes, 0.95),
    )


def of_tickets(tickets: Iterable[Ticket], within: float) -> Traffic:
    """Says what a router's turns of the last seconds tell, where no gateway counts."""
    recent = [ticket for ticket in tickets if ticket.age <= within]
    tokens: dict[str, float] = {}
    misses: dict[str, float] = {}
    for report in (ticket.report for ticket in recent if ticket.report):
        _add(tokens, "reused", report.reused_tokens)
        _add(tokens, "local", report.local_tokens)
        _add(tokens, "computed", report.computed_tokens)
        if report.miss_reason not in NO_MISSES:
            _add(misses, report.miss_reason, 1)
    under_way = sum(ticket.state in (TicketState.ROUTED, TicketState.PREFILLED) for ticket in recent)
    return Traffic(within, len(recent), under_way, tokens, misses, ttft_median=None, ttft_p95=None)


def quantile(buckets: Mapping[float, float], share: float) -> float | None:
    """Estimates a quantile from cumulative buckets, as Prometheus does; the last finite bound is the most it says."""
    whole = buckets.get(math.inf, 0.0)
    if not whole:
        return None
    rank, low, below = share * whole, 0.0, 0.0
    for bound, count in sorted(buckets.items()):
        if count >= rank:
            return low if bound == math.inf else low + (bound - low) * (rank - below) / (count - below)
        low, below = bound, count
    return low


def _grown(old: Mapping[str, float], new: Mapping[str, float]) -> dict[str, float]:
    grown = {name: value - old.get(name, 0.0) for name, value in new.items()}
    return {name: value for name, value in grown.items() if value}


def _add(sums: dict[KeyT, float], key: KeyT, value: float) -> None:
    sums[key] = sums.get(key, 0.0) + value
