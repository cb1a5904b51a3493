"""Registry, router, gateway and real engines on this machine, and what tests do with them."""

import contextlib
import random
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import httpx

from kvlease.client.sync import Client
from kvlease.client.types import Lease, LeaseKind
from kvlease.local import install, model, page, ports
from kvlease.local.engine import Engine
from kvlease.local.fleet import READY_WITHIN, Fleet
from kvlease.local.launch import ControlPlane, Launch, Role
from tests.e2e.processes import Service

READS = "vllm:nixl_xfer_time_seconds_count"
USAGE = "vllm:kv_cache_usage_perc"
DEFERRED = "vllm:num_requests_waiting"
TOLERANCE = 1e-3  # between log-probabilities with and without reuse
Options: TypeAlias = Mapping[str, Any]
NO_OPTIONS: Options = MappingProxyType({})
PATIENT = {"KVLEASE_WAIT": "2s"}  # two loaded cores must not turn a rule into a timing
ENGINES = PATIENT | {"VLLM_SERVER_DEV_MODE": "1"}  # with endpoints that discard KV and preempt
ANSWERED_TTL = 10.0  # seconds that a lease lives after an answer
PREFILL_TTL = 5.0  # seconds that prefill's lives, at most


@dataclass(frozen=True, slots=True)
class Answer:
    """What a completion said."""

    tokens: list[int]
    logprobs: list[float]
    cached: int


class Served(Protocol):
    """An engine, real or simulated, that can be killed, frozen and started again."""

    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def running(self) -> bool: ...
    def start(self) -> int: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def tail(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Services:
    """The control plane and the gateway."""

    registry: Service
    router: Service
    gateway: Service


class Stack:
    """One prefill and one decode engine behind a gateway."""

    def __init__(self, services: Services, prefill: Served, decode: Served, *, ttl: float = ANSWERED_TTL) -> None:
        """Is told how long a lease lives after an answer, in seconds."""
        self.registry, self.router, self.gateway = services.registry, services.router, services.gateway
        self.prefill, self.decode, self.ttl = prefill, decode, ttl
        self.engines = (prefill, decode)
        self.client = Client(registry=self.registry.address, router=self.router.address)
        self.http = self._http()

    def _http(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://{self.gateway.address}", timeout=120)

    def close(self) -> None:
        self.http.close()
        self.client.close()

    def connect(self) -> None:
        """Gives up the connections to the gateway, which are broken, for new ones."""
        self.http.close()
        self.http = self._http()

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

    def leg(self, engine: Served, ticket: str, prompt: list[int], **more: Any) -> Answer:
        """One leg of a turn, straight to its engine."""
        request = body(prompt, **more) | {"kv_transfer_params": {"kvlease_ticket": ticket}}
        headers = {"X-Request-Id": uuid.uuid4().hex}
        response = httpx.post(f"{engine.url}/v1/completions", json=request, headers=headers, timeout=120)
        assert response.status_code == 200, response.text
        return answer(response.json())

    def reads(self) -> int:
        """Reads that prefill has made from decode, by NIXL's own count."""
        return int(counter(self.prefill, READS))

    def misses(self, reason: str) -> float:
        """Turns for which this was why not more was reused, by the gateway's own count."""
        series = f'kvlease_gateway_misses_total{{reason="{reason}"}} '
        lines = self.http.get("/metrics").text.splitlines()
        return sum(float(line.removeprefix(series)) for line in lines if line.startswith(series))

    def leases(self, conversation: str) -> list[Lease]:
        """What decode keeps of the conversation."""
        return self.client.list_leases(conversation_id=conversation, kind=LeaseKind.DECODE)

    def leased(self, conversation: str, count: int = 1, *, within: float = 30.0) -> float:
        """Waits until so many leases of the conversation are known; returns the seconds that this took."""
        begun = time.monotonic()
        while len(held := self.leases(conversation)) < count:
            assert time.monotonic() < begun + within, f"{len(held)} of {count} leases of {conversation}"
            time.sleep(0.02)
        return time.monotonic() - begun

    def nobody_waits(self, within: float = 30.0) -> None:
        """Waits until no engine says that a request of it waits."""
        deadline = time.monotonic() + within
        while waiting := {e.name: n for e in self.engines if (n := counter(e, DEFERRED)) > 0}:
            assert time.monotonic() < deadline, f"requests still wait: {waiting}"
            time.sleep(0.05)

    def renew(self, *conversations: str, ttl: float) -> None:
        """Renews leases, and waits until their owner has heard of it."""
        self.client.renew(*conversations, ttl=ttl)
        before, beats = 0.0, 0
        while beats < 2:
            [silent] = [engine.silent for engine in self.client.list_engines() if engine.ref.engine_id == "decode"]
            before, beats = silent, beats + (silent < before)
            time.sleep(0.05)

    def end(self, conversation: str) -> None:
        self.http.delete(f"/v1/conversations/{conversation}").raise_for_status()

    def settle(self, *conversations: str, within: float = 30.0) -> float:
        """Ends conversations and waits until no engine holds a block any more; returns the seconds that this took."""
        for conversation in conversations:
            self.end(conversation)
        begun = time.monotonic()
        while held := {e.name: u for e in self.engines if (u := counter(e, USAGE)) > 0}:
            assert time.monotonic() < begun + within, f"blocks are still held: {held}"
            time.sleep(0.05)
        return time.monotonic() - begun

    def wait_ready(self, within: float = READY_WITHIN) -> None:
        """Waits until all engines are healthy."""
        deadline = time.monotonic() + within
        for engine in self.engines:
            while not page.answers(f"{engine.url}/health"):
                assert engine.running, engine.tail()
                assert time.monotonic() < deadline, engine.tail()
                time.sleep(0.1)

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


def assert_same(one: Answer, other: Answer) -> float:
    """The log-probabilities of both are equal: no token was computed from another's KV. Returns how far they differ."""
    assert one.tokens == other.tokens
    apart = max(abs(a - b) for a, b in zip(one.logprobs, other.logprobs, strict=True))
    assert apart < TOLERANCE
    return apart


def counter(engine: Served, name: str) -> float:
    return page.counters(engine.url).get(name, 0.0)


@contextlib.contextmanager
def services(
    logs: Path, *, ttl: float = ANSWERED_TTL, registry: Sequence[str] = (), gateway: Sequence[str] = ()
) -> Iterator[Services]:
    """Runs registry, router and gateway; *registry* and *gateway* are more options of theirs."""
    logs.mkdir(parents=True, exist_ok=True)
    registry_port, router_port, gateway_port = ports.free(3)
    lives = ["--answered-ttl", f"{ttl:g}s", "--prefill-ttl", f"{min(ttl, PREFILL_TTL):g}s"]
    leasing = Service("registry", registry_port, [*lives, *registry], logs)
    routing = Service("router", router_port, ["--registry", leasing.address, "--wait", "1s"], logs)
    addresses = ["--router", routing.address, "--registry", leasing.address]
    front = Service("gateway", gateway_port, [*addresses, "--wait", "2s", *gateway], logs)
    with contextlib.ExitStack() as stack:
        for service in (leasing, routing, front):
            service.start()
            stack.callback(service.stop)
        yield Services(leasing, routing, front)


@contextlib.contextmanager
def ready(made: Stack) -> Iterator[Stack]:
    """The stack once it serves with both engines."""
    with contextlib.closing(made):
        made.wait_ready()
        made.wait_until_pd()
        yield made


@contextlib.contextmanager
def running(
    version: str,
    logs: Path,
    *,
    prefill: Options = NO_OPTIONS,
    decode: Options = NO_OPTIONS,
    ttl: float = ANSWERED_TTL,
) -> Iterator[Stack]:
    """A stack of real engines that serves; *prefill* and *decode* change how each is launched."""
    installation, folder = install.find(version), model.ensure(model.default_cache())
    with services(logs, ttl=ttl) as plane, contextlib.ExitStack() as stack:
        control = ControlPlane(plane.registry.address, plane.router.address)
        found = ports.free(4)

        def launch(role: Role, http_port: int, side_port: int, **more: Any) -> Launch:
            return Launch(
                role.value, role, installation, folder, http_port, side_port, control, environment=ENGINES, **more
            )

        launches = [
            launch(Role.PREFILL, *found[:2], prefix_caching=False, **prefill),  # only decode has the history
            launch(Role.DECODE, *found[2:], **decode),
        ]
        fleet = Fleet(Engine(launch, logs=logs) for launch in launches)
        stack.callback(fleet.stop)
        fleet.start()
        yield stack.enter_context(ready(Stack(plane, *fleet, ttl=ttl)))
