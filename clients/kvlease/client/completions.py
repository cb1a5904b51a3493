"""What a turn makes of OpenAI's completions API: the requests of its two legs, and what an answer's end means.

Pure, and shared by whoever drives turns: the gateway, which leaves values as the bytes they came in, and the client,
which has them as they are. So the bodies are generic in what a member's value is, and *write* makes one.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from kvlease.client import arguments
from kvlease.client.errors import KvleaseError
from kvlease.client.types import StopReason

CHAT = "/v1/chat/completions"
KV_PARAMS = "kv_transfer_params"
TRANSFER = frozenset({KV_PARAMS, "ec_transfer_params"})
"""Never an application's to send: they would have an engine read or free blocks of its choice."""
IDENTITY = ("session_id", "conversation_id")
"""Members that name the conversation; ours, not to be sent on."""

# What prefill has no use for: its answer is thrown away after one token. What shapes the prompt stays, and that is
# also `response_format` and `tool_choice`, which some models' templates show to the model.
_OF_THE_ANSWER = frozenset(
    {
        "stream_options",
        "stream_interval",
        "best_of",
        "echo",
        "logprobs",
        "top_logprobs",
        "logprob_token_ids",
        "min_tokens",
        "stop",
        "stop_token_ids",
        "include_stop_str_in_output",
        "structured_outputs",
        "thinking_token_budget",
        "repetition_detection",
        "logit_bias",
        "allowed_token_ids",
        "bad_words",
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "seed",
        "top_p",
        "top_k",
        "min_p",
        "return_token_ids",
        "return_tokens_as_token_ids",
        "return_token_offsets",
        "return_prompt_text",
        "return_assistant_tokens_mask",
        "routed_experts_prompt_start",
    }
)
# One token, whichever: an end-of-sequence token is taken like any other, so that prefill always ends at its limit.
_ONE_TOKEN = {"stream": False, "n": 1, "max_tokens": 1, "temperature": 0, "ignore_eos": True}
_ONE_CHAT_TOKEN = _ONE_TOKEN | {"max_completion_tokens": 1}
_TOOL_REASONS = ("tool_calls", "function_call")

ValueT = TypeVar("ValueT")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One turn that an application asks for. *timeout*: seconds for all of it."""

    conversation_id: str
    model: str
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    timeout: float
    answered: Callable[[], None]
    """To be called once the turn was completed."""
    failed: Callable[[KvleaseError], None]
    """To be called once the turn has failed for good."""

    @classmethod
    def of(
        cls,
        conversation_id: str,
        messages: Sequence[Mapping[str, Any]],
        *,
        model: str,
        timeout: float,
        headers: Mapping[str, str],
        options: Mapping[str, Any],
        answered: Callable[[], None],
        failed: Callable[[KvleaseError], None],
    ) -> "Ask":
        """Puts a streamed chat request together; *options* are its other members."""
        arguments.text("model", model)
        body = {**options, "model": model, "messages": arguments.messages(messages), "stream": True}
        return cls(
            conversation_id=conversation_id,
            model=model,
            body=body,
            headers=arguments.headers(headers),
            timeout=arguments.seconds("timeout", timeout),
            answered=answered,
            failed=failed,
        )

    @property
    def alone(self) -> bool:
        """Prefill's KV would be of no use to decode, or it would get another prompt."""
        body = self.body
        truncated = body.get("truncate_prompt_tokens") or 0
        return any(body.get(name) for name in ("prompt_logprobs", "prompt_embeds", "use_beam_search")) or truncated < 0


def decode_leg(members: Mapping[str, ValueT], ticket: str, write: Callable[[object], ValueT]) -> dict[str, ValueT]:
    """Gives the application's request with the ticket; without one if that is empty."""
    leg = _clean(members)
    if ticket:
        leg[KV_PARAMS] = write({"kvlease_ticket": ticket})
    return leg


def prefill_leg(
    members: Mapping[str, ValueT], ticket: str, write: Callable[[object], ValueT], *, chat: bool
) -> dict[str, ValueT]:
    """Gives a request for the same prompt and a single token."""
    leg = {name: value for name, value in _clean(members).items() if name not in _OF_THE_ANSWER}
    leg |= {name: write(value) for name, value in (_ONE_CHAT_TOKEN if chat else _ONE_TOKEN).items()}
    leg[KV_PARAMS] = write({"kvlease_ticket": ticket})
    return leg


def stop_reason(finish_reasons: Collection[str], *, names_tool: bool) -> StopReason:
    """Tells why decode stopped; of several choices, what lets the conversation go on longest.

    Where the request *names* the *tool* to call, vLLM ends the answer with "stop".
    """
    if any(reason in _TOOL_REASONS for reason in finish_reasons) or (names_tool and "stop" in finish_reasons):
        return StopReason.TOOLS_CALLED
    if finish_reasons and all(reason == "length" for reason in finish_reasons):
        return StopReason.LENGTH
    return StopReason.ANSWERED


def _clean(members: Mapping[str, ValueT]) -> dict[str, ValueT]:
    return {name: value for name, value in members.items() if name not in TRANSFER and name not in IDENTITY}
