"""Whatever is sent, the router refuses it in one of the ways that the API names, and goes on."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from threading import Thread
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlease.client.errors import KvleaseError, ServerFault, Unimplemented, from_rpc
from kvlease.client.sync import Client
from kvlease.v1 import router_pb2
from tests.router.registry_server import routed
from tests.support.fuzz import messages

METHODS = [method.name for method in router_pb2.DESCRIPTOR.services_by_name["RoutingService"].methods]
TIMEOUT = 20.0


class Fuzzed:
    """A router that serves, and a ticket of it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.channel = grpc.insecure_channel(address)
        with Client(router=address) as client:
            turn = client.route("m", conversation_id="c")
        refs = [turn.decode.engine, turn.prefill.engine if turn.prefill else turn.decode.engine]
        self.hints: dict[str, st.SearchStrategy[Any]] = {
            "ticket": st.sampled_from([turn.ticket, turn.ticket[:-1], "kvt1.e30.AAAA", "x" * 9000]),
            "ticket_id": st.sampled_from([turn.ticket_id, "t", ""]),
            "model": st.sampled_from(["m", "n", ""]),
            "engine_id": st.sampled_from([refs[0].engine_id, refs[1].engine_id, "\0"]),
            "incarnation": st.sampled_from([refs[0].incarnation, "", "i"]),
        }

    def send(self, method: str, request: bytes) -> KvleaseError | None:
        """Returns what the caller is told; None: it was served."""
        call: Any = self.channel.unary_unary(f"/kvlease.v1.RoutingService/{method}")
        try:
            call(request, timeout=TIMEOUT)
        except grpc.RpcError as error:
            return from_rpc(error)
        return None


@pytest.fixture(scope="module")
def router() -> Iterator[Fuzzed]:
    """Serves on a thread of its own, so that each example is one call."""
    address: Future[str] = Future()
    stopped = asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with routed() as to:
            address.set_result(to.router.address)
            await stopped.wait()

    thread = Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        fuzzed = Fuzzed(address.result(60))
        yield fuzzed
        fuzzed.channel.close()
    finally:
        loop.call_soon_threadsafe(stopped.set)
        thread.join(60)
        loop.close()


def check(told: KvleaseError | None) -> None:
    """A refusal has a reason that the API names, and is no fault of the server."""
    assert told is None or told.reason, repr(told)
    assert not isinstance(told, ServerFault | Unimplemented), repr(told)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_message_is_a_fault_of_the_server(router: Fuzzed, method: str, data: st.DataObject) -> None:
    request = data.draw(messages(getattr(router_pb2, f"{method}Request"), router.hints))

    check(router.send(method, request.SerializeToString()))


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=200))
def test_no_bytes_are_a_fault_of_the_server(router: Fuzzed, method: str, data: bytes) -> None:
    check(router.send(method, data))


def test_it_still_serves(router: Fuzzed) -> None:
    with Client(router=router.address) as client:
        assert client.route("m", conversation_id="c").ticket
