"""How an answer ended, and what that means for the turn's lease."""

from collections.abc import Collection

import msgspec

from kvlease.client import completions, words
from kvlease.gateway.body import UNREADABLE
from kvlease.v1 import lease_pb2


class _Choice(msgspec.Struct):
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice] = []


_completion = msgspec.json.Decoder(_Completion)


def finish_reasons(body: bytes) -> set[str]:
    """Returns why the choices of a whole answer ended; none for what is no answer."""
    try:
        return {choice.finish_reason for choice in _completion.decode(body).choices if choice.finish_reason}
    except UNREADABLE:
        return set()


def stop_reason(reasons: Collection[str], *, names_tool: bool) -> lease_pb2.StopReason.ValueType:
    """Returns why decode stopped; of several choices, what lets the conversation go on longest."""
    stopped: lease_pb2.StopReason.ValueType = words.STOP_REASON.write(
        completions.stop_reason(reasons, names_tool=names_tool)
    )
    return stopped
