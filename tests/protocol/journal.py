"""What happened last, in words: calls that the services carried out, and faults. Written down only when asked for."""

from collections import deque

from google.protobuf.message import Message

from kvlease.v1.registry_pb2 import HeartbeatRequest
from tests.protocol.calls import Call, Failed

KEPT = 300
SKIPPED = ("credential", "branch", "handle", "load", "engine", "report", "ticket", "timing", "terms")


class Journal:
    """The last so many entries."""

    def __init__(self) -> None:
        self._entries: deque[tuple[float, str | tuple[Call, Message | Failed]]] = deque(maxlen=KEPT)

    def note(self, now: float, text: str) -> None:
        """Keeps a sentence."""
        self._entries.append((now, text))

    def heard(self, now: float, call: Call, outcome: Message | Failed) -> None:
        """Keeps a call and how it ended; heartbeats only if they tell something."""
        request = call.request
        if isinstance(request, HeartbeatRequest) and not request.freed_lease_ids and not getattr(outcome, "orders", ()):
            return
        self._entries.append((now, (call, outcome)))

    def __str__(self) -> str:
        return "\n".join(f"{now:9.3f} {_written(entry)}" for now, entry in self._entries)


def _written(entry: str | tuple[Call, Message | Failed]) -> str:
    if isinstance(entry, str):
        return entry
    call, outcome = entry
    ended = f"{outcome.code().name} {outcome.details()}" if isinstance(outcome, Failed) else _brief(outcome)
    return f"{call.caller.name} {call.method}({_brief(call.request)}) -> {ended}"


def _brief(message: Message) -> str:
    shown = (f"{field.name}={_short(value)}" for field, value in message.ListFields() if field.name not in SKIPPED)
    return ", ".join(shown)


def _short(value: object) -> str:
    if isinstance(value, Message):
        return f"({_brief(value)})"
    if isinstance(value, str):
        return value[:8]
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if hasattr(value, "__iter__"):
        return f"[{', '.join(map(_short, value))}]"
    return str(value)
