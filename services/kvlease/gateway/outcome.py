"""How an answer ended, and what that means for the turn's lease."""

from collections.abc import Collection

import msgspec

from kvlease.v1 import lease_pb2

_TOOL_REASONS = ("tool_calls", "function_call")


class _Choice(msgspec.Struct):
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice] = []


_completion = msgspec.json.Decoder(_Completion)


def finish_reasons(body: bytes) -> set[str]:
    """Returns why the choices of a whole answer ended; none for what is no answer."""
    try:
        return {choice.finish_reason for choice in _completion.decode(body).choices if choice.finish_reason}
    except msgspec.DecodeError:
        return set()


def stop_reason(reasons: Collection[str], *, names_tool: bool) -> lease_pb2.StopReason.ValueType:
    """Returns why decode stopped; of several choices, what lets the conversation go on longest."""
    if any(reason in _TOOL_REASONS for reason in reasons) or (names_tool and "stop" in reasons):
        return lease_pb2.STOP_REASON_TOOLS_CALLED
    if reasons and all(reason == "length" for reason in reasons):
        return lease_pb2.STOP_REASON_LENGTH
    return lease_pb2.STOP_REASON_ANSWERED
