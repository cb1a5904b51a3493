"""The tokens that prefill did not compute, told where OpenAI's clients look for them."""

import msgspec

from kvlease.gateway.body import UNREADABLE, Members, raw, render

_members = msgspec.json.Decoder(Members)


def correct(answer: bytes, cached_tokens: int) -> bytes:
    """Sets `usage.prompt_tokens_details.cached_tokens` in a JSON answer and leaves every byte outside `usage` alone.

    What has no usage, or is no JSON object, is returned as it is.
    """
    old = _object(answer).get("usage")
    usage = _object(old)
    if old is None or not usage:
        return answer
    details = _object(usage.get("prompt_tokens_details")) | {"cached_tokens": raw(cached_tokens)}
    usage["prompt_tokens_details"] = msgspec.Raw(b"".join(render(details)))
    before, _, after = answer.rpartition(bytes(old))
    return b"".join((before, *render(usage), after))


def _object(data: bytes | msgspec.Raw | None) -> Members:
    """Takes an object apart; what is none has no members."""
    try:
        return {} if data is None else _members.decode(data)
    except UNREADABLE:
        return {}
