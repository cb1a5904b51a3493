"""A completion request, as far as the gateway has to know it."""

from dataclasses import dataclass

import msgspec

from kvlease.client import completions
from kvlease.gateway import identity
from kvlease.gateway.body import Members, parse, read
from kvlease.gateway.errors import bad_request
from kvlease.gateway.http.message import Request

CHAT = completions.CHAT
COMPLETIONS = "/v1/completions"

_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request for a completion."""

    path: str
    """`CHAT` or `COMPLETIONS`."""
    members: Members
    """Of the body, as the client sent it."""
    model: str
    conversation: str
    """Its id; empty: nothing is kept or reused."""
    stream: bool
    choices: int
    """How many answers come back."""
    names_tool: bool
    """The client chose the tool to call, and vLLM will end the answer with "stop", not with "tool_calls"."""
    alone: bool
    """Decode must compute the prompt itself and without a ticket."""
    tokens: int
    """Rough size."""


def read_prompt(request: Request) -> Prompt:
    """Reads a request. Raises ApiError."""
    members = parse(request.body)
    model = read(members, "model", str, "")
    if not model:
        raise bad_request("you must provide a model parameter", param="model")
    prompts = _prompts(members.get("prompt"))
    return Prompt(
        path=request.path,
        members=members,
        model=model,
        conversation=identity.conversation_of(request, members),
        stream=read(members, "stream", bool, False),
        choices=prompts * max(1, read(members, "n", int, 1)),
        names_tool=bytes(members.get("tool_choice", b"")).startswith(b"{"),
        alone=prompts > 1 or _must_be_alone(members),
        tokens=_estimate(request, members),
    )


def _must_be_alone(members: Members) -> bool:
    """Tells whether prefill's KV would be of no use to decode.

    It computes the logits of every prompt token again for their log-probabilities; beam search makes many requests of
    one; embeddings prove no tokens; and truncation to what `max_tokens` leaves gives prefill another prompt.
    """
    echoed = read(members, "echo", bool, False) and (_given(members, "logprobs") or _given(members, "top_logprobs"))
    return (
        echoed
        or _given(members, "prompt_logprobs")
        or _given(members, "prompt_embeds")
        or read(members, "use_beam_search", bool, False)
        or read(members, "truncate_prompt_tokens", int, 0) < 0
    )


def _given(members: Members, name: str) -> bool:
    return bytes(members.get(name, b"null")) not in (b"null", b"false")


def _prompts(prompt: msgspec.Raw | None) -> int:
    """Counts the prompts of a list; a list of numbers is one prompt. A ticket is for one."""
    text = bytes(prompt or b"")
    if prompt is None or not text.startswith(b"[") or text[1:].lstrip()[:1] not in (b'"', b"["):
        return 1
    return len(msgspec.json.decode(prompt, type=list[msgspec.Raw]))


def _estimate(request: Request, members: Members) -> int:
    prompt = bytes(members.get("prompt", b""))
    if prompt.startswith(b"["):
        return prompt.count(b",") + 1
    return len(request.body) // _BYTES_PER_TOKEN
