"""Simulated engines beside the services of `kvlease up`, in the same process: there at once, and without a model."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from kvlease.cli.beside import Tell
from kvlease.client.lengths import written
from kvlease.connector.settings import Settings as ConnectorSettings
from kvlease.local import model
from kvlease.local.launch import ControlPlane
from kvlease.sim.fleet import Fleet
from kvlease.sim.scheduler import Limits
from kvlease.sim.settings import Settings


class SimulatedEngines:
    """A fleet in this process. It answers to the tiny model's name, so that whatever asks one can ask the other."""

    def __init__(self, settings: list[Settings], *, log: Path) -> None:
        """Tells of *log* as where they log: where all of this process does."""
        self._settings = settings
        self._log = str(log)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(each.connector.engine_id for each in self._settings)

    @asynccontextmanager
    async def running(self, tell: Tell) -> AsyncIterator[None]:
        """Starts all; they are ready then."""
        async with Fleet(self._settings) as fleet:
            for instance in fleet.instances:
                name = instance.settings.connector.engine_id
                tell("engine started", name=name, url=instance.url, pid=os.getpid(), log=self._log)
            yield

    async def ready(self, tell: Tell) -> None:
        """Tells that all are."""
        for each in self._settings:
            tell("engine ready", name=each.connector.engine_id)

    async def supervise(self, _: Tell) -> None:
        """Waits: these crash only when told to, and when told so come back by themselves."""
        await asyncio.Event().wait()


def plan(
    control: ControlPlane,
    *,
    prefill: int,
    decode: int,
    blocks: int | None,
    wait: float,
    prefill_prefix_caching: bool,
    environment: Mapping[str, str] = os.environ,
) -> list[Settings]:
    """So many engines of each role, on free ports."""
    roles = [("prefill", number) for number in range(prefill)] + [("decode", number) for number in range(decode)]
    services = {"kvlease_registry": control.registry, "kvlease_router": control.router}
    common = {**services, "kvlease_wait": written(wait), "bidirectional_kv_xfer": True}
    engines = [
        Settings(
            role=role,
            model=model.NAME,
            connector=ConnectorSettings.of({**common, "kvlease_engine_id": f"{role}-{number}"}, environment),
            limits=Limits(prefix_caching=prefill_prefix_caching or role == "decode"),
        )
        for role, number in roles
    ]
    return [replace(engine, blocks=blocks) for engine in engines] if blocks else engines
