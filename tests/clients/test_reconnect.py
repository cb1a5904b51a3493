"""A client finds its server again, and nobody has to restart it."""

from collections.abc import Iterator

import pytest

from kvlease.client import aio, sync
from kvlease.client.errors import Unavailable
from kvlease.client.testing import FakeRegistry
from tests.clients.names import FakeDns
from tests.conftest import Seen


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as registry:
        registry.grant("c")
        yield registry


def restart(registry: FakeRegistry) -> None:
    registry.stop()
    registry.start(registry.port)


def test_the_first_call_after_a_restart_succeeds(registry: FakeRegistry) -> None:
    with sync.Client(registry=registry.address) as client:
        client.list_leases()
        restart(registry)

        assert len(client.list_leases()) == 1


def test_a_server_that_was_away_for_long_is_found_again(registry: FakeRegistry) -> None:
    with sync.Client(registry=registry.address) as client:
        client.list_leases()
        registry.stop()
        with pytest.raises(Unavailable):
            client.list_leases(timeout=1.0)
        registry.start(registry.port)

        assert len(client.list_leases()) == 1


async def test_the_first_call_after_a_restart_succeeds_for_tasks(registry: FakeRegistry) -> None:
    async with aio.Client(registry=registry.address) as client:
        await client.list_leases()
        restart(registry)

        assert len(await client.list_leases()) == 1


def test_another_replica_of_a_fixed_list_takes_over(registry: FakeRegistry) -> None:
    with FakeRegistry() as other, sync.Client(registry=f"{registry.address},{other.address}") as client:
        client.list_leases()
        registry.stop()

        assert client.list_leases() == []


def test_calls_go_round_the_replicas(registry: FakeRegistry) -> None:
    with FakeRegistry() as other, sync.Client(registry=f"{registry.address},{other.address}") as client:
        while not (registry.calls and other.calls):
            client.list_leases()


@pytest.mark.case(40)
def test_a_server_that_came_back_with_another_address_is_found_by_its_name(registry: FakeRegistry, seen: Seen) -> None:
    with FakeDns("127.0.0.1") as names, FakeRegistry() as recreated:
        client = sync.Client(registry=f"dns://127.0.0.1:{names.port}/registry.test:{registry.port}")
        client.list_leases()

        registry.stop()
        recreated.stop()
        names.address = "127.0.0.2"
        recreated.start(registry.port, host="127.0.0.2")

        assert client.list_leases() == []
        client.close()
    seen("from 127.0.0.1 to 127.0.0.2 under one name: the first call succeeds")
