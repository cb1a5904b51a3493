"""Requests of a stock proxy: prefill to decode as ever; what stops or empties stock vLLM does not."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from vllm.v1.core.sched.output import SchedulerOutput
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput
from vllm.v1.request import RequestStatus

from tests.connector.requests import params, terms
from tests.connector.vllm.engine import OTHER, Engine
from tests.connector.vllm.memory import trace

Start = Callable[..., Engine]
PROMPT = list(range(350))
NAMES = itertools.count(1)


def handle(engine: Engine, **changes: Any) -> dict[str, Any]:
    """What a stock prefill engine hands back for the prompt, and its proxy to decode."""
    name = f"stock-{next(NAMES)}"
    block_ids = list(range(9000, 9022))
    memory = engine.workers.peers[name] = type(engine.memory)()
    memory.write(block_ids, trace(PROMPT), 0, len(PROMPT))
    return {
        "do_remote_prefill": True,
        "do_remote_decode": False,
        "remote_block_ids": [block_ids],
        "remote_engine_id": name,
        "remote_request_id": f"their-{name}",
        "remote_host": "h",
        "remote_port": 1,
        "tp_size": 1,
    } | changes


def sent(engine: Engine, *request_ids: str) -> None:
    """Decode has read these."""
    engine.scheduler.update_from_output(
        SchedulerOutput.make_empty(),
        ModelRunnerOutput(
            req_ids=[], req_id_to_index={}, kv_connector_output=KVConnectorOutput(finished_sending=set(request_ids))
        ),
    )


# -- as in stock -----------------------------------------------------------------------------------------------------


def test_prefill_hands_its_blocks_to_a_stock_decode(start: Start) -> None:
    engine = start()
    request = engine.add(PROMPT, {"do_remote_decode": True, "do_remote_prefill": False}, max_tokens=1)
    engine.step()
    engine.step()

    assert request.request_id in engine.workers.stock.reqs_to_send
    assert engine.used == 22
    sent(engine, request.request_id)
    engine.run()
    assert engine.used == 0


def test_decode_reads_from_a_stock_prefill(start: Start) -> None:
    engine = start()
    request = engine.add(PROMPT, handle(engine))
    engine.step()
    assert engine.workers.stock.heartbeat_by_engine
    engine.workers.end(request.request_id)
    engine.run()

    assert request.num_output_tokens == 4
    assert engine.used == 0


def test_a_failed_read_from_a_stock_prefill_is_computed(start: Start) -> None:
    engine = start()
    request = engine.add(PROMPT, handle(engine))
    engine.step()
    engine.workers.fail(request.request_id)
    engine.run()

    assert request.num_output_tokens == 4
    assert engine.used == 0


def test_a_request_without_parameters_is_none_of_our_business(start: Start) -> None:
    engine = start()
    request = engine.add(PROMPT)
    engine.run()

    assert request.num_output_tokens == 4
    assert (engine.link.asked, engine.used) == ([], 0)


# -- decode's KV without a lease -------------------------------------------------------------------------------------


def test_decodes_inline_blocks_are_computed_instead(start: Start) -> None:
    """Stock prefill would read them and compare no token."""
    engine = start()
    inline = handle(engine, do_remote_prefill=False, do_remote_decode=True, remote_num_tokens=350)
    request = engine.add([4000, *PROMPT[1:]], inline, max_tokens=1)

    assert engine.step().num_scheduled_tokens == {request.request_id: 350}
    assert not engine.workers.reads


def test_decode_hands_out_no_blocks_without_a_lease(start: Start) -> None:
    engine = start()
    request = engine.add(PROMPT, handle(engine))
    engine.step()
    engine.workers.end(request.request_id)
    engine.run()

    assert engine.workers.stock.reqs_to_send == {}
    assert engine.used == 0


# -- each handle once ------------------------------------------------------------------------------------------------


def test_a_handle_that_comes_twice_is_read_once(start: Start) -> None:
    engine = start()
    first = handle(engine)
    one = engine.add(PROMPT, dict(first))
    engine.step()
    other = engine.add(PROMPT, dict(first))
    engine.step()

    assert set(engine.workers.reads) == {one.request_id}
    engine.workers.end(one.request_id)
    engine.run()
    assert other.num_output_tokens == one.num_output_tokens == 4


# -- parameters that stop or empty stock engines ---------------------------------------------------------------------

ODD: list[dict[str, Any]] = [
    {"x": 1},
    {"do_remote_prefill": True},
    {"do_remote_prefill": True, "do_remote_decode": True},
    {"do_remote_prefill": True, "remote_block_ids": None},
    {"do_remote_prefill": True, "remote_block_ids": [[1]]},
    {"do_remote_prefill": True, "remote_engine_id": "e", "remote_request_id": "r", "remote_host": "h"},
    {"do_remote_decode": True, "remote_block_ids": [[1, 2]]},
    {"do_remote_decode": True, "remote_block_ids": 7, "remote_num_tokens": "many"},
    {"do_remote_decode": "yes", "do_remote_prefill": "yes"},
    {"conversation_id": "c"},
    {"kvlease_ticket": 42},
    {"kvlease_ticket": "no ticket", "do_remote_prefill": True},
    {"kvlease_ticket": ""},
    {"kvlease_ticket": "kvt1.!!!.!!!"},
]
BROKEN: list[dict[str, Any]] = [
    {"remote_block_ids": []},
    {"remote_block_ids": [[]]},
    {"remote_block_ids": [list(range(21))]},
    {"remote_block_ids": [list(range(22)), list(range(22))]},
    {"remote_block_ids": list(range(22))},
    {"remote_block_ids": [[-1] * 22]},
    {"remote_block_ids": [["1"] * 22]},
    {"remote_engine_id": None},
    {"remote_engine_id": ["e"]},
    {"remote_request_id": {}},
    {"remote_host": 1},
    {"remote_port": "1"},
    {"tp_size": 0},
    {"tp_size": "1"},
    {"dcp_size": 0},
    {"pp_size": "x"},
    {"remote_blocks_expiry_time": "soon", "remote_block_ids": []},
]


@pytest.mark.parametrize("odd", ODD, ids=str)
def test_odd_parameters_are_served_and_leave_nothing(start: Start, odd: dict[str, Any]) -> None:
    engine = start()
    request = engine.add(PROMPT, dict(odd))
    for _ in range(5):
        engine.step()
    assert request.num_output_tokens == 4

    if request.request_id in engine.scheduler.requests:  # prefill's blocks wait for a stock decode, as ever
        sent(engine, request.request_id)
    engine.run()
    assert engine.used == 0


@pytest.mark.parametrize("broken", BROKEN, ids=str)
def test_a_broken_handle_is_computed_instead(start: Start, broken: dict[str, Any]) -> None:
    engine = start()
    request = engine.add(PROMPT, handle(engine, **broken))

    assert engine.step().num_scheduled_tokens == {request.request_id: 350}
    engine.run()
    assert (request.num_output_tokens, engine.used) == (4, 0)


@pytest.mark.parametrize("given", [*ODD, *BROKEN], ids=str)
def test_nor_do_they_stop_the_engine_when_the_client_leaves_before_they_are_scheduled(
    start: Start, given: dict[str, Any]
) -> None:
    engine = start()
    request = engine.add(PROMPT, handle(engine, **given) if given in BROKEN else dict(given))

    engine.abort(request)
    engine.run()

    assert engine.used == 0


def test_a_good_handle_whose_client_leaves_before_it_is_scheduled_is_given_back(start: Start) -> None:
    engine = start()
    request = engine.add(PROMPT, handle(engine))

    engine.abort(request)
    engine.step()

    assert request.request_id in engine.workers.stock.reqs_to_recv  # notifies prefill, reads nothing
    assert not engine.workers.reads


def test_a_client_cannot_add_to_what_a_ticket_says(start: Start) -> None:
    engine = start()
    mixed = handle(engine) | params(terms(prefill=OTHER, decode=engine.ref))
    request = engine.add(PROMPT, mixed)
    engine.step()

    assert request.status == RequestStatus.WAITING_FOR_REMOTE_KVS
    assert not engine.workers.reads  # it waits for the lease
    engine.abort(request)
    engine.run()
    assert engine.used == 0
