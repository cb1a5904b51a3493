"""One request inside the pretended engine, with the attributes that the connector reads of vLLM's."""

import enum
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kvlease.sim.pool import Block
from kvlease.sim.sequence import Sequence


class State(enum.Enum):
    """Where a request is."""

    WAITING = enum.auto()
    REMOTE = enum.auto()  # has blocks, and waits for what another engine has for them
    RUNNING = enum.auto()
    OVER = enum.auto()


class Finish(enum.Enum):
    """Why a request ended; the values are OpenAI's words, and vLLM's for the last."""

    STOP = "stop"
    LENGTH = "length"
    TOOLS = "tool_calls"
    ABORT = "abort"


class Sink(Protocol):
    """Where a request's answer goes. Called in the engine's loop."""

    def begin(self, request: "Request") -> None:
        """The prompt is computed; the first word follows."""

    def word(self, word: int) -> None:
        """One more word, by its number in `answer.WORDS`."""

    def end(self, request: "Request", finish: Finish) -> None:
        """There is no more."""


@dataclass(slots=True, eq=False)
class Request:
    """A prompt, and what has become of it so far."""

    request_id: str
    sequence: Sequence
    num_prompt_tokens: int
    max_tokens: int
    natural: int
    """Words until the model would stop by itself."""
    sink: Sink
    tools: bool = False
    """Ends in a tool call when it ends by itself."""
    kv_transfer_params: dict[str, Any] | None = None
    cache_salt: str | None = None
    prompt_embeds: None = None
    lora_request: None = None
    mm_features: tuple[()] = ()
    trace_headers: Mapping[str, str] | None = None
    state: State = State.WAITING
    blocks: list[Block] = field(default_factory=list)
    computed: int = 0
    """Tokens whose KV is in the blocks."""
    cached: int | None = None
    """Tokens of the prompt that were found locally or read; None: not known yet."""
    seed: int = 0
    wrong: bool = False
    words: int = 0
    returned_params: Mapping[str, Any] | None = None
    """What a stock proxy is to hand to the next engine."""

    @property
    def prompt_token_ids(self) -> "array[int]":
        return self.sequence.tokens[: self.num_prompt_tokens]

    @property
    def _all_token_ids(self) -> "array[int]":
        return self.sequence.tokens

    @property
    def num_tokens(self) -> int:
        return len(self.sequence.tokens)

    @property
    def num_output_tokens(self) -> int:
        return self.num_tokens - self.num_prompt_tokens

    @property
    def block_ids(self) -> list[int]:
        return [block.block_id for block in self.blocks]
