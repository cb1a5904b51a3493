"""What is sent to the two engines of a turn."""

from collections.abc import Iterable

import msgspec

from kvlease.client import trace
from kvlease.client.completions import CHAT, TRANSFER, decode_leg, prefill_leg
from kvlease.gateway.body import Members, parse, raw, render
from kvlease.gateway.http.message import JSON, Headers, Request
from kvlease.gateway.prompt import Prompt

_EXTRA = "vllm_xargs"  # what is in here reaches the connector too
_KEY = b"authorization"
_TRACE = frozenset({b"traceparent", b"tracestate"})
_FORWARDED = _TRACE | {b"baggage", b"x-vllm-priority"}

Pieces = Iterable[bytes | msgspec.Raw]


def decode_body(prompt: Prompt, ticket: str) -> Pieces:
    """Returns the client's request with the ticket; without one if that is empty."""
    return render(decode_leg(_without_extras(prompt.members), ticket, raw))


def prefill_body(prompt: Prompt, ticket: str) -> Pieces:
    """Returns a request for the same prompt and a single token."""
    return render(prefill_leg(_without_extras(prompt.members), ticket, raw, chat=prompt.path == CHAT))


def leg_headers(request: Request, request_id: str, rank: int | None, *, key: bytes | None = None) -> Headers:
    """Returns the headers of a leg; *rank* names the data-parallel rank, where there are several.

    Engines are shown *key*, none if it is empty; by default the client's. They get the trace that is being worked for.
    """
    headers = [JSON, (b"x-request-id", request_id.encode())]
    forwarded = _FORWARDED | {_KEY} if key is None else _FORWARDED
    if carried := [(name.encode(), value.encode()) for name, value in trace.current()]:
        headers += carried
        forwarded -= _TRACE
    headers += [header for header in request.headers if header[0] in forwarded]
    if key:
        headers.append((_KEY, b"Bearer " + key))
    if rank is not None:
        headers.append((b"x-data-parallel-rank", b"%d" % rank))
    return headers


def _without_extras(members: Members) -> Members:
    """Takes what would reach the connector out of what is handed through to it."""
    extra = members.get(_EXTRA)
    if extra is None or not bytes(extra).startswith(b"{"):
        return members
    inner = {name: value for name, value in parse(extra).items() if name not in TRANSFER}
    return members | {_EXTRA: msgspec.Raw(b"".join(render(inner)))}
