"""A session is opened once the engine serves, kept by heartbeats, and opened again whatever happens."""

import contextlib
import socket
from collections.abc import Callable

import pytest

from kvlease.client import errors
from kvlease.connector import session
from kvlease.connector.session import ANNOUNCE_BATCH
from kvlease.v1.registry_pb2 import EngineLoad
from tests.connector.grants import grant
from tests.connector.linked import Linked
from tests.connector.plane import HOLD, Registry

Link = Callable[..., Linked]


def held(engine: Linked, *lease_ids: str) -> None:
    """Leases that the registry has granted."""
    for lease_id in lease_ids:
        engine.owner.keep(grant(lease_id), engine.clock())
        engine.owner.granted(lease_id, 1, 60.0, engine.clock())


# -- opening ---------------------------------------------------------------------------------------------------------


def test_an_engine_opens_a_session_and_keeps_it(link: Link, registry: Registry) -> None:
    link().start()

    assert registry.wait_for("Heartbeat", 3)
    assert len(registry.asked("OpenSession")) == 1
    assert [beat.received_number for beat in registry.asked("Heartbeat")][:3] == [0, 1, 2]


def test_an_engine_whose_server_takes_no_connections_yet_is_not_registered(link: Link, registry: Registry) -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        engine = link(http_url=f"http://127.0.0.1:{server.getsockname()[1]}")
        engine.link.start()
        assert not registry.wait_for("OpenSession", 1, timeout=0.3)

        server.listen()

        engine.until(lambda: engine.link.connected)


def test_an_engine_whose_server_is_not_reached_from_here_is_registered_in_the_end(
    link: Link, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SERVING_WITHIN", 0.3)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))  # and does not listen
        link(http_url=f"http://127.0.0.1:{server.getsockname()[1]}").link.start()

        assert registry.wait_for("OpenSession", 1)


def test_an_engine_whose_own_connections_get_no_answer_is_registered_in_the_end(
    link: Link, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SERVING_WITHIN", 0.3)
    with socket.socket() as server, contextlib.ExitStack() as waiting:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        for _ in range(2):  # as many as may wait to be accepted; further ones hear nothing
            client = waiting.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        link(http_url=f"http://127.0.0.1:{server.getsockname()[1]}").link.start()

        assert registry.wait_for("OpenSession", 1)


def test_an_engine_whose_url_names_no_host_is_registered_in_the_end(
    link: Link, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "SERVING_WITHIN", 0.3)
    link(http_url="http://prefill..svc:8000").link.start()

    assert registry.wait_for("OpenSession", 1)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("http://engine:8000", ("engine", 8000)),
        ("http://engine/v1", ("engine", 80)),
        ("https://engine.example", ("engine.example", 443)),
        ("https://[::1]:8443", ("::1", 8443)),
    ],
)
def test_a_server_is_looked_for_where_its_url_says(url: str, place: tuple[str, int]) -> None:
    assert session.host_and_port(url) == place


def test_a_fault_is_no_end_of_the_session(link: Link, registry: Registry) -> None:
    engine = link().start()
    load, engine.load = engine.load, "no load"  # type: ignore[assignment]
    engine.until(lambda: not engine.link.connected)

    engine.load = load

    engine.until(lambda: engine.link.connected)
    assert len(registry.asked("OpenSession")) > 1


def test_blocks_that_were_asked_for_before_an_outage_are_not_asked_for_after_it(link: Link, registry: Registry) -> None:
    engine = link().start()
    port = registry.port
    registry.stop()
    engine.until(lambda: not engine.link.connected)
    beats = len(registry.asked("Heartbeat"))
    engine.link.beat(reclaim_blocks=7)

    registry.forget(boot="boot-2")
    registry.start(port)

    engine.until(lambda: engine.link.connected)
    assert registry.wait_for("Heartbeat", beats + 2)
    opened = [call.method for call in registry.calls].index("OpenSession", 1)
    assert {call.request.reclaim_blocks for call in registry.calls[opened:] if call.method == "Heartbeat"} == {0}


def test_a_registry_that_starts_late_is_found(link: Link, registry: Registry) -> None:
    port = registry.port
    registry.stop()
    engine = link()
    engine.link.start()
    engine.until(lambda: not engine.link.connected)

    registry.start(port)

    engine.until(lambda: engine.link.connected)


def test_a_registry_that_refuses_is_asked_again(link: Link, registry: Registry) -> None:
    registry.fail_next(errors.Malformed("no engine"), errors.ServerFault("broken"))

    link().start()

    assert len(registry.asked("OpenSession")) == 3


# -- after a loss ----------------------------------------------------------------------------------------------------


def test_a_registry_that_has_forgotten_everything_is_told_what_is_held(link: Link, registry: Registry) -> None:
    engine = link().start()
    held(engine, "a", "b")
    engine.clock.advance(10.0)

    registry.forget(boot="boot-2")

    assert registry.wait_for("AnnounceLeases", 1)
    assert {lease.lease_id: lease.remaining.seconds for lease in registry.announced} == {"a": 50, "b": 50}


def test_another_boot_of_the_registry_is_noticed_even_if_it_knows_the_session(link: Link, registry: Registry) -> None:
    engine = link().start()
    held(engine, "a")

    registry.boot = "boot-2"

    assert registry.wait_for("AnnounceLeases", 1)
    assert len(registry.asked("OpenSession")) == 2


def test_what_is_over_for_the_registry_is_freed(link: Link, registry: Registry) -> None:
    engine = link().start()
    held(engine, "a", "b")
    registry.over = {"a"}

    registry.forget(boot="boot-2")

    engine.until(lambda: engine.owner.waiting)
    assert list(engine.owner.due(engine.clock())) == ["a"]


def test_an_announcement_that_was_cut_is_made_again(link: Link, registry: Registry) -> None:
    engine = link().start()
    held(engine, "a")
    registry.lose_answers("AnnounceLeases")

    registry.forget(boot="boot-2")

    assert registry.wait_for("AnnounceLeases", 2)
    engine.until(lambda: engine.link.connected)
    assert engine.owner.holds("a")


def test_many_leases_are_announced_in_batches(link: Link, registry: Registry) -> None:
    engine = link()
    engine.owner.opened(HOLD, engine.clock())
    held(engine, *(str(i) for i in range(2 * ANNOUNCE_BATCH + 1)))

    engine.start()

    assert [len(request.leases) for request in registry.asked("AnnounceLeases")] == [ANNOUNCE_BATCH, ANNOUNCE_BATCH, 1]


@pytest.mark.parametrize("method", ["OpenSession", "Heartbeat"])
def test_a_lost_answer_loses_no_lease(link: Link, registry: Registry, method: str) -> None:
    engine = link()
    registry.lose_answers(method, 4)
    engine.start()
    held(engine, "a")

    assert registry.wait_for("Heartbeat", 6)
    engine.until(lambda: engine.link.connected)
    assert engine.owner.holds("a")


def test_a_registry_that_says_nothing_is_not_asked_for_leases(link: Link, registry: Registry) -> None:
    engine = link().start()

    registry.freeze()

    engine.until(lambda: not engine.link.connected)
    registry.thaw()
    engine.until(lambda: engine.link.connected)


def test_an_idle_engine_is_woken_when_the_registry_was_silent_for_the_hold(link: Link, registry: Registry) -> None:
    engine = link().start()
    held(engine, "a")
    registry.freeze()
    engine.until(lambda: not engine.link.connected)
    wakes = engine.wakes

    engine.clock.advance(HOLD + 0.1)

    engine.until(lambda: engine.wakes > wakes)
    assert list(engine.owner.due(engine.clock())) == ["a"]


# -- heartbeats ------------------------------------------------------------------------------------------------------


def test_an_order_wakes_the_engine_and_is_repeated_until_it_was_confirmed(link: Link, registry: Registry) -> None:
    engine = link().start()
    held(engine, "a")

    registry.order_free("a")

    engine.until(lambda: engine.owner.waiting)
    assert engine.owner.due(engine.clock()) == {"a": "RETIRE_REASON_EXPIRED"}
    engine.until(lambda: not registry.orders)


def test_a_reason_of_a_newer_registry_is_followed_too(link: Link, registry: Registry) -> None:
    engine = link().start()
    held(engine, "a")

    registry.order_free("a", reason=99)

    engine.until(lambda: engine.owner.waiting)
    assert list(engine.owner.due(engine.clock())) == ["a"]
    engine.until(lambda: not registry.orders)


def test_space_is_asked_for_at_once(link: Link, registry: Registry) -> None:
    engine = link().start()

    engine.link.beat(7)

    engine.until(lambda: any(beat.reclaim_blocks == 7 for beat in registry.asked("Heartbeat")))
    beats = len(registry.asked("Heartbeat"))
    assert registry.wait_for("Heartbeat", beats + 1)
    assert registry.asked("Heartbeat")[-1].reclaim_blocks == 0


def test_every_heartbeat_tells_the_load(link: Link, registry: Registry) -> None:
    engine = link().start()
    engine.load = EngineLoad(running=3, waiting=2, free_blocks=50, leased_blocks=7)

    engine.until(lambda: any(beat.load == engine.load for beat in registry.asked("Heartbeat")))


# -- the end ---------------------------------------------------------------------------------------------------------


def test_a_stopping_engine_gives_its_leases_back_and_says_goodbye(link: Link, registry: Registry) -> None:
    engine = link().start()

    engine.link.close(0.0)

    assert [call.method for call in registry.calls[-2:]] == ["ReleaseAll", "CloseSession"]


def test_a_registry_that_does_not_answer_holds_up_no_stop(link: Link, registry: Registry) -> None:
    engine = link().start()
    registry.freeze()

    engine.link.close(0.0)
    engine.thread.stop()

    assert not engine.thread.running


def test_a_link_that_was_never_started_stops(link: Link) -> None:
    link().link.close(0.0)


def test_all_leases_are_given_back_on_demand(link: Link, registry: Registry) -> None:
    engine = link().start()
    held(engine, "a")
    registry.leases["a"] = grant("a")  # type: ignore[assignment]

    engine.link.release_all()

    engine.until(lambda: engine.owner.waiting)
    assert engine.owner.due(engine.clock()) == {"a": "released"}
