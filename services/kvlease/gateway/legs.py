"""What is sent to the two engines of a turn."""

from collections.abc import Iterable

import msgspec

from kvlease.gateway.body import Members, parse, raw, render
from kvlease.gateway.http.message import JSON, Headers, Request
from kvlease.gateway.identity import FIELDS
from kvlease.gateway.prompt import CHAT, Prompt

KV_PARAMS = "kv_transfer_params"
# Never a client's to send: they would have an engine read or free blocks of the client's choice.
_TRANSFER = frozenset({KV_PARAMS, "ec_transfer_params"})
_EXTRA = "vllm_xargs"  # what is in here reaches the connector too
_OURS = _TRANSFER | frozenset(FIELDS)

_FORWARDED = frozenset({b"authorization", b"traceparent", b"tracestate", b"baggage", b"x-vllm-priority"})

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
_ONE = raw(1)
# One token, whichever: an end-of-sequence token is taken like any other, so that prefill always ends at its limit.
_ONE_TOKEN: Members = {
    "stream": raw(False),
    "n": _ONE,
    "max_tokens": _ONE,
    "temperature": raw(0),
    "ignore_eos": raw(True),
}
_ONE_CHAT_TOKEN: Members = _ONE_TOKEN | {"max_completion_tokens": _ONE}

Pieces = Iterable[bytes | msgspec.Raw]


def decode_body(prompt: Prompt, ticket: str) -> Pieces:
    """Returns the client's request with the ticket; without one if that is empty."""
    members = _clean(prompt.members)
    if ticket:
        members[KV_PARAMS] = _params(ticket)
    return render(members)


def prefill_body(prompt: Prompt, ticket: str) -> Pieces:
    """Returns a request for the same prompt and a single token."""
    members = {name: value for name, value in _clean(prompt.members).items() if name not in _OF_THE_ANSWER}
    members |= _ONE_CHAT_TOKEN if prompt.path == CHAT else _ONE_TOKEN
    members[KV_PARAMS] = _params(ticket)
    return render(members)


def leg_headers(request: Request, request_id: str, rank: int | None) -> Headers:
    """Returns the headers of a leg; *rank* names the data-parallel rank, where there are several."""
    headers = [JSON, (b"x-request-id", request_id.encode())]
    headers += [header for header in request.headers if header[0] in _FORWARDED]
    if rank is not None:
        headers.append((b"x-data-parallel-rank", b"%d" % rank))
    return headers


def _clean(members: Members) -> Members:
    kept = {name: value for name, value in members.items() if name not in _OURS}
    extra = kept.get(_EXTRA)
    if extra is not None and bytes(extra).startswith(b"{"):
        inner = {name: value for name, value in parse(extra).items() if name not in _TRANSFER}
        kept[_EXTRA] = msgspec.Raw(b"".join(render(inner)))
    return kept


def _params(ticket: str) -> msgspec.Raw:
    return raw({"kvlease_ticket": ticket})
