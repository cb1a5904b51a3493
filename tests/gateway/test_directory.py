"""Which engines the gateway knows of when it has to do without the router."""

import pytest

from kvlease.gateway.directory import Directory
from kvlease.v1 import lease_pb2, registry_pb2
from tests.support.clock import FakeClock

DECODE, PREFILL = registry_pb2.ENGINE_ROLE_DECODE, registry_pb2.ENGINE_ROLE_PREFILL
MEMORY = 12.0


def engine(
    name: str,
    incarnation: str = "1",
    *,
    role: registry_pb2.EngineRole.ValueType = DECODE,
    healthy: bool = True,
    draining: bool = False,
) -> registry_pb2.EngineStatus:
    ref = lease_pb2.EngineRef(engine_id=name, incarnation=incarnation)
    described = registry_pb2.Engine(ref=ref, role=role, models=["m"], http_url=f"http://{name}")
    return registry_pb2.EngineStatus(engine=described, healthy=healthy, draining=draining)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def directory(clock: FakeClock) -> Directory:
    return Directory(memory=MEMORY, clock=clock)


def chosen(directory: Directory, *exclude: tuple[str, str]) -> str | None:
    endpoint = directory.decode_for("m", exclude)
    return endpoint.engine.engine_id if endpoint else None


def test_the_decode_engine_with_the_fewest_requests_is_chosen(directory: Directory) -> None:
    directory.update([engine("p", role=PREFILL), engine("a"), engine("b")])

    with directory.serving(engine("a").engine.ref):
        assert chosen(directory) == "b"
        with directory.serving(engine("b").engine.ref), directory.serving(engine("b").engine.ref):
            assert chosen(directory) == "a"


def test_excluded_engines_are_not_chosen(directory: Directory) -> None:
    directory.update([engine("a"), engine("b")])

    assert chosen(directory, ("a", "1")) == "b"
    assert chosen(directory, ("a", "1"), ("b", "1")) is None


def test_only_decode_engines_make_a_model_known(directory: Directory) -> None:
    directory.update([engine("p", role=PREFILL)])
    assert directory.models() == []

    directory.update([engine("b", role=registry_pb2.ENGINE_ROLE_BOTH)])
    assert directory.models() == ["m"]


def test_an_engine_is_remembered_for_a_while_after_the_registry_forgot_it(
    directory: Directory, clock: FakeClock
) -> None:
    directory.update([engine("a")])

    clock.advance(1e6)  # the registry was away for so long, and is empty now
    directory.update([])
    clock.advance(MEMORY)
    directory.update([])
    assert chosen(directory) == "a"

    clock.advance(0.1)
    directory.update([])
    assert chosen(directory) is None


def test_while_the_registry_is_silent_nothing_is_forgotten(directory: Directory, clock: FakeClock) -> None:
    directory.update([engine("a")])

    clock.advance(1e6)

    assert chosen(directory) == "a"


def test_an_engine_that_is_listed_again_is_forgotten_no_sooner(directory: Directory, clock: FakeClock) -> None:
    directory.update([engine("a")])
    directory.update([])
    clock.advance(MEMORY / 2)
    directory.update([engine("a")])

    directory.update([])
    clock.advance(MEMORY)
    directory.update([])

    assert chosen(directory) == "a"


def test_a_lost_engine_is_gone(directory: Directory) -> None:
    directory.update([engine("a")])

    assert directory.update([engine("a", healthy=False)]) == {("a", "1")}
    assert chosen(directory) is None


def test_a_draining_engine_finishes_its_work_and_gets_no_more(directory: Directory) -> None:
    directory.update([engine("a")])

    assert directory.update([engine("a", healthy=False, draining=True)]) == set()
    assert chosen(directory) is None


def test_a_restarted_engine_leaves_its_old_self_gone(directory: Directory) -> None:
    directory.update([engine("a", "1")])

    assert directory.update([engine("a", "2")]) == {("a", "1")}
    assert directory.update([engine("a", "2")]) == set()


def test_an_engine_that_is_merely_not_listed_is_not_gone(directory: Directory) -> None:
    directory.update([engine("a")])

    assert directory.update([]) == set()
