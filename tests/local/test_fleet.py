"""Several engines together."""

from pathlib import Path

import pytest

from kvlease.local import ports
from kvlease.local.engine import Engine, EngineFailed
from kvlease.local.fleet import plan, wait_ready
from kvlease.local.install import Installation
from kvlease.local.launch import Role

HERE = Installation("0.32.0", Path("/engines/vllm-0.32.0"))


class FakeEngine(Engine):
    """One that answers what it is told to."""

    def __init__(self, folder: Path, name: str, *, ready: bool | Exception) -> None:
        (launch,) = plan(HERE, folder, prefill=0, decode=1, control=None)
        super().__init__(launch, logs=folder)
        self.name, self._ready = name, ready
        self.log.write_text("a line\nthe last line\n")

    def ready(self) -> bool:
        if isinstance(self._ready, Exception):
            raise self._ready
        return self._ready


def test_engines_are_named_by_role_and_share_no_port() -> None:
    launches = plan(HERE, Path("/model"), prefill=2, decode=1, control=None)

    assert [launch.name for launch in launches] == ["prefill-0", "prefill-1", "decode-0"]
    assert [launch.role for launch in launches] == [Role.PREFILL, Role.PREFILL, Role.DECODE]
    assert len({port for launch in launches for port in (launch.http_port, launch.side_port)}) == 6


def test_every_engine_is_told_of_once_it_is_ready(tmp_path: Path) -> None:
    told: list[str] = []

    wait_ready(
        [FakeEngine(tmp_path, "one", ready=True), FakeEngine(tmp_path, "other", ready=True)],
        tell=lambda engine: told.append(engine.name),
    )

    assert told == ["one", "other"]


def test_one_that_ends_ends_the_waiting(tmp_path: Path) -> None:
    slow = FakeEngine(tmp_path, "slow", ready=False)
    gone = FakeEngine(tmp_path, "gone", ready=EngineFailed("gone ended"))

    with pytest.raises(EngineFailed, match="gone ended"):
        wait_ready([slow, gone])


def test_one_that_is_late_is_shown_with_the_end_of_its_log(tmp_path: Path) -> None:
    with pytest.raises(EngineFailed, match=r"(?s)slow was not ready within 0 s.*the last line"):
        wait_ready([FakeEngine(tmp_path, "slow", ready=False)], within=0)


def test_an_engine_that_has_not_started_is_not_waited_for(tmp_path: Path) -> None:
    (launch,) = plan(HERE, tmp_path, prefill=0, decode=1, control=None)
    engine = Engine(launch, logs=tmp_path)
    engine.log.write_text("")

    with pytest.raises(EngineFailed, match="decode-0 ended"):
        engine.ready()


def test_ports_are_free_and_below_those_that_outgoing_connections_take() -> None:
    found = ports.free(5)

    assert len(set(found)) == 5
    assert all(21_000 <= port < 32_000 for port in found)
