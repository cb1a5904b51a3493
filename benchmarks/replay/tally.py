"""What a replay counts."""

from dataclasses import dataclass

from benchmarks.replay.traffic import Happening, Traffic


@dataclass(slots=True)
class Tally:
    """Turns that found their conversation's KV, and what keeping it cost."""

    traffic: Traffic
    turns: int = 0
    hits: int = 0
    tokens: int = 0
    hit_tokens: int = 0
    kept: float = 0.0
    """Token-seconds, from a turn's end to the next one or to the lease's end, within the time that is counted."""

    def came(self, happening: Happening, tokens: int, *, hit: bool) -> None:
        """Counts a turn that could have found so many tokens."""
        if self.traffic.counts(happening):
            self.turns += 1
            self.tokens += tokens
            self.hits += hit
            self.hit_tokens += tokens if hit else 0

    def let_go(self, tokens: int, since: float, until: float) -> None:
        """Counts what was kept."""
        self.kept += tokens * max(0.0, min(until, self.traffic.until) - max(since, self.traffic.since))

    @property
    def hit_rate(self) -> float:
        return self.hits / max(1, self.turns)

    @property
    def token_rate(self) -> float:
        return self.hit_tokens / max(1, self.tokens)

    @property
    def demand(self) -> float:
        """Tokens kept at a time, on average."""
        return self.kept / (self.traffic.until - self.traffic.since)
