"""Registry, router, gateway and real engines on this machine, and what tests do with them."""

import contextlib
import random
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import httpx

from kvlease.local import install, model, page, ports
from kvlease.local.engine import Engine
from kvlease.local.fleet import Fleet, wait_ready
from kvlease.local.launch import ControlPlane, Launch, Role
from tests.e2e.processes import Service

READS = "vllm:nixl_xfer_time_seconds_count"
USAGE = "vllm:kv_cache_usage_perc"
DEFERRED = "vllm:num_requests_waiting"
TOLERANCE = 1e-3  # between log-probabilities with and without reuse
Options: TypeAlias = Mapping[str, Any]
NO_OPTIONS: Options = MappingProxyType({})
PATIENT = {"KVLEASE_WAIT": "2s"}  # two loaded cores must not turn a rule into a timing
ANSWERED_TTL = 10.0  # seconds that a lease lives after an answer


@dataclass(frozen=True, slots=True)
class Answer:
    """What a completion said."""

    tokens: list[int]
    logprobs: list[float]
    cached: int


class Stack:
    """One prefill and one decode engine behind a gateway."""

    def __init__(self, registry: Service, router: Service, gateway: Service, fleet: Fleet) -> None:
        self.registry, self.router, self.gateway, self.fleet = registry, router, gateway, fleet
        self.prefill, self.decode = fleet.of(Role.PREFILL)[0], fleet.of(Role.DECODE)[0]
        self.http = self._client()

    def _client(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://{self.gateway.address}", timeout=120)

    def close(self) -> None:
        self.http.close()

    def connect(self) -> None:
        """Gives up the connections to the gateway, which are broken, for new ones."""
        self.close()
        self.http = self._client()

    def complete(
        self,
        prompt: list[int],
        conversation: str | None = None,
        *,
        extra_headers: dict[str, str] | None = None,
        **more: Any,
    ) -> Answer:
        """One turn through the gateway, with tokens in and out."""
        headers = named(conversation) | (extra_headers or {})
        response = self.http.post("/v1/completions", json=body(prompt, **more), headers=headers)
        assert response.status_code == 200, response.text
        return answer(response.json())

    def cold(self, prompt: list[int], **more: Any) -> Answer:
        """The same from decode alone, with nothing cached."""
        request = body(prompt, **more) | {"cache_salt": uuid.uuid4().hex}
        response = httpx.post(f"{self.decode.url}/v1/completions", json=request, timeout=120)
        assert response.status_code == 200, response.text
        return answer(response.json())

    def reads(self) -> int:
        """Reads that prefill has made from decode, by NIXL's own count."""
        return int(counter(self.prefill, READS))

    def end(self, conversation: str) -> None:
        self.http.delete(f"/v1/conversations/{conversation}").raise_for_status()

    def settle(self, *conversations: str, within: float = 30.0) -> None:
        """Ends conversations and waits until no engine holds a block any more."""
        for conversation in conversations:
            self.end(conversation)
        deadline = time.monotonic() + within
        while held := {e.name: u for e in self.fleet if (u := counter(e, USAGE)) > 0}:
            assert time.monotonic() < deadline, f"blocks are still held: {held}"
            time.sleep(0.2)

    def wait_until_pd(self, within: float = 60.0) -> None:
        """Waits until a request is served by both engines: prefill computes, decode reads from it."""
        deadline = time.monotonic() + within
        before = counter(self.decode, READS)
        while counter(self.decode, READS) == before:
            assert time.monotonic() < deadline, "prefill and decode do not work together"
            with contextlib.suppress(httpx.HTTPError):
                self.http.post("/v1/completions", json=body(tokens(300), max_tokens=1))
            time.sleep(0.5)


def body(prompt: list[int], **more: Any) -> dict[str, Any]:
    asked = {
        "model": model.NAME,
        "prompt": prompt,
        "temperature": 0,
        "logprobs": 1,
        "max_tokens": 8,
        "ignore_eos": True,
        "return_token_ids": True,
    }
    return asked | more


def answer(response: dict[str, Any]) -> Answer:
    choice = response["choices"][0]
    details = response["usage"].get("prompt_tokens_details") or {}
    return Answer(choice["token_ids"], choice["logprobs"]["token_logprobs"], details.get("cached_tokens", 0))


def named(conversation: str | None) -> dict[str, str]:
    return {"X-Conversation-ID": conversation} if conversation else {}


def tokens(count: int) -> list[int]:
    """Random tokens of single bytes, never seen before."""
    return [random.randrange(5, 200) for _ in range(count)]


def assert_same(one: Answer, other: Answer) -> None:
    """The log-probabilities of both are equal: no token was computed from another's KV."""
    assert one.tokens == other.tokens
    assert max(abs(a - b) for a, b in zip(one.logprobs, other.logprobs, strict=True)) < TOLERANCE


def counter(engine: Engine, name: str) -> float:
    return page.counters(engine.url).get(name, 0.0)


@contextlib.contextmanager
def running(
    version: str, logs: Path, *, prefill: Options = NO_OPTIONS, decode: Options = NO_OPTIONS
) -> Iterator[Stack]:
    """A stack that serves; *prefill* and *decode* change how each is launched."""
    logs.mkdir(parents=True, exist_ok=True)
    registry_port, router_port, gateway_port, *engine_ports = ports.free(7)
    registry = Service("registry", registry_port, ["--answered-ttl", f"{ANSWERED_TTL:g}s"], logs)
    router = Service("router", router_port, ["--registry", registry.address, "--wait", "1s"], logs)
    addresses = ["--router", router.address, "--registry", registry.address]
    gateway = Service("gateway", gateway_port, [*addresses, "--wait", "2s"], logs)
    control = ControlPlane(registry.address, router.address)
    installation, folder = install.find(version), model.ensure(model.default_cache())

    def launch(role: Role, http_port: int, side_port: int, **more: Any) -> Launch:
        return Launch(
            role.value, role, installation, folder, http_port, side_port, control, environment=PATIENT, **more
        )

    launches = [
        launch(Role.PREFILL, *engine_ports[:2], prefix_caching=False, **prefill),  # only decode has the history
        launch(Role.DECODE, *engine_ports[2:], **decode),
    ]
    with contextlib.ExitStack() as stack:
        for service in (registry, router, gateway):
            service.start()
            stack.callback(service.stop)
        fleet = Fleet(Engine(launch, logs=logs) for launch in launches)
        stack.callback(fleet.stop)
        fleet.start()
        wait_ready(fleet)
        made = Stack(registry, router, gateway, fleet)
        stack.callback(made.close)
        made.wait_until_pd()
        yield made
