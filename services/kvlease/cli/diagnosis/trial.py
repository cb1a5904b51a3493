"""A conversation of two turns through the gateway, to see what becomes of its KV."""

import uuid
from collections.abc import Sequence
from typing import Any

import httpx2

from kvlease.cli.diagnosis.survey import Probe
from kvlease.client.errors import KvleaseError
from kvlease.client.sync import Client
from kvlease.client.types import Ticket

ANSWER = 160  # tokens: more than a stride of the proof, and than the threshold of a read
TIMEOUT = 120.0  # seconds for one turn: a cold engine takes its time
_FIRST = "Count from one to two hundred in words, one number after the other. " * 20
_SECOND = "Thank you. And backwards?"


class Trial:
    """Conversations of one run, which end together."""

    def __init__(self, http: httpx2.Client, client: Client, gateway: str, timeout: float) -> None:
        """Talks to the *gateway*, and asks the router what it saw; *timeout* is for the latter, in seconds."""
        self._http = http
        self._client = client
        self._gateway = gateway
        self._timeout = timeout
        self._names: list[str] = []

    def hold(self, model: str) -> Probe:
        """Holds one."""
        name = f"kvlease-doctor-{uuid.uuid4().hex}"
        self._names.append(name)
        messages: list[dict[str, Any]] = [{"role": "user", "content": _FIRST}]
        try:
            message = self._ask(model, name, messages)
            messages += [{"role": "assistant", "content": message.get("content")}, {"role": "user", "content": _SECOND}]
            self._ask(model, name, messages)
            told = self._client.list_tickets(conversation_id=name, timeout=self._timeout)
        except (httpx2.HTTPError, KvleaseError, ValueError, LookupError) as error:
            return Probe(model, error=str(error) or type(error).__name__)
        second, first = _last_two(told)
        reasoning = bool(message.get("reasoning_content") or message.get("reasoning"))
        return Probe(model, first=first, second=second, reasoning=reasoning)

    def end(self) -> None:
        """Ends all; one that is not ended expires."""
        for name in self._names:
            try:
                self._client.end(name, timeout=self._timeout)
            except KvleaseError:
                return

    def _ask(self, model: str, name: str, messages: Sequence[dict[str, Any]]) -> dict[str, Any]:
        body = {
            "model": model,
            "conversation_id": name,
            "messages": messages,
            "max_tokens": ANSWER,
            "min_tokens": ANSWER,
            "temperature": 0,
        }
        answer = self._http.post(f"{self._gateway}/v1/chat/completions", json=body, timeout=TIMEOUT)
        if answer.is_error:
            raise httpx2.HTTPError(f"{answer.status_code} {answer.text[:500]}")
        message: dict[str, Any] = answer.json()["choices"][0]["message"]
        return message


def _last_two(tickets: Sequence[Ticket]) -> tuple[Ticket | None, Ticket | None]:
    """Gives the newest and the one before it."""
    newest, before, *_ = (*tickets, None, None)
    return newest, before
