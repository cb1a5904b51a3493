"""How long things take in the pretended engine. All times in seconds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """A linear model.

    Attributes:
        step: Of every step of the scheduler.
        prefill_token: Of each token of a prompt that a step computes.
        token: Of a step in which anything is decoded, whatever the batch: the time per output token.
        transfer: Of every read from another engine.
        transfer_token: Of each token that is read.
    """

    step: float = 0.001
    prefill_token: float = 20e-6
    token: float = 0.005
    transfer: float = 0.003
    transfer_token: float = 1e-6

    def __post_init__(self) -> None:
        """Refuses negative times."""
        for name in self.__slots__:
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")

    def of_step(self, prefilled: int, decoded: int) -> float:
        """Returns the time of a step that computes *prefilled* tokens of prompts and decodes for *decoded* requests."""
        return self.step + self.prefill_token * prefilled + (self.token if decoded else 0.0)

    def of_read(self, tokens: int) -> float:
        """Returns the time of reading *tokens* tokens."""
        return self.transfer + self.transfer_token * tokens
