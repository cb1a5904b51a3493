"""A stack: one prefill and one decode engine, and for kvlease registry, router and gateway before them."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from benchmarks.multiturn import cuda
from benchmarks.multiturn.cuda import Cuda, CudaEngine
from benchmarks.multiturn.models import Model
from kvlease.client.errors import ModelNotFound, Unavailable
from kvlease.client.lengths import written
from kvlease.client.sync import Client
from kvlease.client.types import RouteMode
from kvlease.local import install, page, ports
from kvlease.local.engine import Engine, EngineFailed
from kvlease.local.fleet import Fleet, wait_ready
from kvlease.local.launch import HOST, ControlPlane, Launch, Role
from kvlease.local.process import Process

STOCK, KVLEASE = "stock", "kvlease"
STACKS = (STOCK, KVLEASE)

_READY_WITHIN = 420.0  # seconds
_ROUTED_WITHIN = 60.0  # seconds after the engines are healthy
_GRACE = 10.0  # seconds that a service has to end by itself
_POLL = 0.1  # seconds
_STOCK_TTL = 480.0  # seconds for which stock decode pins a turn's blocks
_TTLS = {"--answered-ttl": 60.0, "--tools-ttl": 480.0, "--longest-life": 3_600.0}  # the registry's defaults, in seconds


class StackFailed(Exception):
    """A part of it ended, or was not ready in time."""


@dataclass(frozen=True, slots=True)
class Serving:
    """What is to be served."""

    stack: str  # of `STACKS`
    model: Model
    cuda: Cuda | None  # None: on CPU, by `version` of the checkout's engines
    version: str
    context: int  # tokens of prompt and answer
    blocks: int | None = None  # KV blocks in decode's pool; None: what fits
    patience: float = 0.05  # seconds that a request may wait for the control plane in all
    haste: float = 1.0  # by how much lifetimes of retained KV are shortened
    connector: Mapping[str, Any] = field(default_factory=dict)  # more of kv_connector_extra_config
    arguments: Sequence[str] = ()  # more of vLLM's
    gateway: Sequence[str] = ()  # more of the gateway's


@dataclass(frozen=True, slots=True)
class Stack:
    """Where its parts are, and what a client must know."""

    name: str
    model: str
    prefill: str  # base URLs; empty: not known
    decode: str
    gateway: str  # empty: there is none
    first_token: int
    last_token: int
    facts: dict[str, Any]  # versions and flags

    def save(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, file: Path) -> Self:
        return cls(**json.loads(file.read_text()))


@dataclass(frozen=True, slots=True)
class Prepared:
    """A stack that is not started yet, though it is known where it will be."""

    stack: Stack
    control: ControlPlane | None
    services: Sequence[Process]
    engines: Fleet


def prepare(serving: Serving, *, logs: Path) -> Prepared:
    """Plans a stack on ports that are free now.

    Raises:
        EngineUnavailable: vLLM, or something it needs, is missing.
    """
    registry, router, gateway, *engine_ports = ports.free(7)
    control = ControlPlane(f"{HOST}:{registry}", f"{HOST}:{router}") if serving.stack == KVLEASE else None
    folder = logs / serving.stack
    launches = _launches(serving, control, engine_ports)
    engines = Fleet([_engine(serving, launch, folder) for launch in launches])
    services = _services(serving, control, f"{HOST}:{gateway}", folder) if control else []
    stack = Stack(
        name=serving.stack,
        model=serving.model.name,
        prefill=engines.of(Role.PREFILL)[0].url,
        decode=engines.of(Role.DECODE)[0].url,
        gateway=f"http://{HOST}:{gateway}" if control else "",
        first_token=serving.model.first_token,
        last_token=serving.model.last_token,
        facts=_facts(serving, launches[0].installation.version, [*services, *engines]),
    )
    return Prepared(stack, control, services, engines)


@contextmanager
def running(prepared: Prepared, *, say: Callable[[str], None]) -> Iterator[Stack]:
    """Runs a stack, and says on the way how far it is.

    Raises:
        StackFailed: a part of it ended, or was not ready in time.
    """
    begun = time.monotonic()
    with ExitStack() as ends:
        for service in prepared.services:
            ends.callback(service.stop)
            service.start()
        ends.callback(prepared.engines.stop)
        prepared.engines.start()
        _wait_healthy(prepared.engines, lambda name: say(f"{name} is ready after {time.monotonic() - begun:.0f} s"))
        if prepared.control:
            _wait_routed(prepared.control, prepared.stack)
        yield prepared.stack


def _launches(serving: Serving, control: ControlPlane | None, found: Sequence[int]) -> list[Launch]:
    """Prefill's and decode's; stock takes the lifetime of retained KV at decode, kvlease at its registry."""
    installation = cuda.installation() if serving.cuda else install.find(serving.version)
    common = [
        *("--served-model-name", serving.model.name, "--max-model-len", str(serving.context)),
        "--enable-prompt-tokens-details",
    ]
    lifetime = {} if control else {"decoder_kv_blocks_ttl": _STOCK_TTL / serving.haste}
    return [
        Launch(
            name=role.value,
            role=role,
            installation=installation,
            model=serving.model.folder,
            http_port=http_port,
            side_port=side_port,
            control=control,
            blocks=serving.blocks if role is Role.DECODE else None,
            prefix_caching=role is Role.DECODE,
            connector={**lifetime, **serving.connector},
            arguments=[*common, *serving.arguments],
            environment={"KVLEASE_WAIT": written(serving.patience)} if control else {},
        )
        for role, http_port, side_port in zip((Role.PREFILL, Role.DECODE), found[:2], found[2:], strict=True)
    ]


def _engine(serving: Serving, launch: Launch, logs: Path) -> Engine:
    if serving.cuda:
        return CudaEngine(launch, serving.model, serving.cuda, logs=logs)
    return Engine(launch, logs=logs)


def _services(serving: Serving, control: ControlPlane, gateway: str, logs: Path) -> list[Process]:
    """Each in a process of its own."""
    patience = written(serving.patience)
    ttls = [text for flag, ttl in _TTLS.items() for text in (flag, f"{ttl / serving.haste:g}s")]
    commands = {
        "registry": ["--listen", control.registry, *ttls],
        "router": ["--listen", control.router, "--registry", control.registry, "--wait", patience],
        "gateway": [
            *("--listen", gateway, "--router", control.router, "--registry", control.registry),
            *("--wait", patience),
            *serving.gateway,
        ],
    }
    return [
        Process(name, [sys.executable, "-m", f"kvlease.{name}", *arguments], log=logs / f"{name}.log", grace=_GRACE)
        for name, arguments in commands.items()
    ]


def _wait_healthy(engines: Fleet, tell: Callable[[str], None]) -> None:
    try:
        wait_ready(engines, within=_READY_WITHIN, tell=lambda engine: tell(engine.name))
    except EngineFailed as error:
        raise StackFailed(str(error)) from error


def _wait_routed(control: ControlPlane, stack: Stack) -> None:
    """Waits until a turn would be served by both engines."""
    deadline = time.monotonic() + _ROUTED_WITHIN
    with Client(registry=control.registry, router=control.router) as client:
        while not (_routes_both(client, stack.model) and page.answers(f"{stack.gateway}/health")):
            if time.monotonic() > deadline:
                raise StackFailed(f"router or gateway do not use both engines after {_ROUTED_WITHIN:g} s")
            time.sleep(_POLL)


def _routes_both(client: Client, name: str) -> bool:
    try:
        turn = client.route(name)
    except (ModelNotFound, Unavailable):
        return False
    client.cancel(turn.ticket)
    return turn.mode is RouteMode.PREFILL_DECODE


def _facts(serving: Serving, version: str, processes: Sequence[Process]) -> dict[str, Any]:
    return {
        "vllm": version,
        "devices": [serving.cuda.prefill, serving.cuda.decode] if serving.cuda else "cpu",
        "haste": serving.haste,
        "model": serving.model.facts,
        "commands": {process.name: list(process.command[1:]) for process in processes},
    }
