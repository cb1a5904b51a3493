"""The connector's counts come out on vLLM's own `/metrics`, the way that vLLM carries them."""

import copy
from collections.abc import Callable, Iterator

import msgspec
import pytest
from prometheus_client import REGISTRY
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorLogging, KVConnectorProm
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.stats import NixlKVConnectorStats
from vllm.v1.metrics.prometheus import unregister_vllm_metrics

from kvlease.connector.nixl import NixlConnector
from kvlease.connector.stats import OURS
from kvlease.connector.turn import Answer
from tests.connector.vllm.engine import Engine
from tests.connector.vllm.remotes import Remote

Start = Callable[..., Engine]
HISTORY = list(range(300))
PROMPT = [*HISTORY, *range(1000, 1050)]


@pytest.fixture
def metrics() -> Iterator[Callable[[Engine], KVConnectorProm]]:
    """Makes what the process that serves HTTP makes, and takes it away from the process's metrics in the end."""

    def make(engine: Engine) -> KVConnectorProm:
        return KVConnectorProm(engine.config, ["model_name", "engine"], {0: ["m", "0"]})

    yield make
    for collector in list(REGISTRY._collector_to_names):
        if getattr(collector, "_name", "").startswith(("kvlease_", "vllm:nixl")):
            REGISTRY.unregister(collector)


def value(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(f"kvlease_connector_{name}", {"model_name": "m", "engine": "0"} | labels)


def reads(engine: Engine) -> None:
    """A turn whose history is read, after which a lease is kept."""
    request = engine.prefill(PROMPT)
    engine.link.answer(Remote(engine, HISTORY).answer(engine.link.asked[0]))
    engine.step()
    engine.workers.end(request.request_id)
    engine.run()
    assert request.is_finished()


def test_what_happened_is_on_vllms_own_metrics(start: Start, metrics: Callable[[Engine], KVConnectorProm]) -> None:
    engine = start()
    shown = metrics(engine)
    reads(engine)
    engine.clock.advance(1.0)
    engine.link.order_free(*engine.link.grants)
    engine.clock.advance(0.25)
    engine.run()

    for data in engine.stats:
        shown.observe(msgspec.msgpack.decode(msgspec.msgpack.encode(data)))

    assert value("prompt_tokens_total", source="reused") == 300
    assert value("prompt_tokens_total", source="computed") == 50
    assert value("claims_total", outcome="USED") == 1
    assert value("leases_freed_total", reason="UNSPECIFIED") == 1
    assert value("reclaim_seconds_sum") == 0.25
    assert value("leases") == value("leased_blocks") == 0


def test_leases_are_shown_while_they_are_kept(start: Start, metrics: Callable[[Engine], KVConnectorProm]) -> None:
    engine = start()
    shown = metrics(engine)
    assert value("leases") == 0
    reads(engine)

    for data in engine.stats:
        shown.observe(data)

    assert value("leases") == 1
    assert value("leased_blocks") == 22


def test_a_miss_is_shown_with_its_reason(start: Start, metrics: Callable[[Engine], KVConnectorProm]) -> None:
    engine = start()
    shown = metrics(engine)
    engine.prefill(PROMPT)
    engine.link.answer(Answer(miss="NO_LEASE"))
    engine.run()

    for data in engine.stats:
        shown.observe(data)

    assert value("misses_total", reason="NO_LEASE") == 1


def test_requests_without_a_ticket_cost_nothing_and_say_nothing(start: Start) -> None:
    engine = start()
    engine.add(PROMPT)

    engine.run()

    assert engine.stats == []


def test_stats_of_workers_and_of_the_scheduler_add_up_in_any_order(start: Start) -> None:
    engine = start()
    reads(engine)
    (*_, last) = engine.stats
    workers = NixlKVConnectorStats()
    workers.data["num_failed_transfers"].append(1)

    for first, second in ((workers.data, last), (last, workers.data)):
        both = NixlConnector.build_kv_connector_stats(copy.deepcopy(first))
        both.aggregate(NixlConnector.build_kv_connector_stats(copy.deepcopy(second)))
        both.aggregate(NixlConnector.build_kv_connector_stats())
        assert both.data[OURS] == last[OURS]
        assert both.data["num_failed_transfers"] == [1]


def test_the_log_line_of_an_interval_says_what_was_reused(start: Start) -> None:
    engine = start()
    reads(engine)
    interval, lines = KVConnectorLogging(engine.config.kv_transfer_config), list[str]()

    for data in engine.stats:
        interval.observe(data)
    interval.log(lambda text, *words: lines.append(text % words))
    interval.log(lambda text, *words: lines.append(text % words))

    assert lines == ["KV Transfer metrics: Leases=1, Tokens reused=300"]


def test_a_second_engine_of_a_process_takes_the_names_over(
    start: Start, metrics: Callable[[Engine], KVConnectorProm]
) -> None:
    engine = start()
    metrics(engine)
    unregister_vllm_metrics()

    shown = metrics(engine)
    shown.observe(NixlConnector.build_kv_connector_stats().data)

    assert value("leases") == 0
