"""Whatever is sent, the registry refuses it in one of the ways that the API names, and goes on: over every store."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import grpc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlease.client.errors import KvleaseError, ServerFault, StoreUnreachable, Unimplemented, from_rpc
from kvlease.client.sync import Client
from kvlease.registry.settings import MEMORY, Settings
from kvlease.v1 import lease_pb2, registry_pb2, registry_pb2_grpc
from tests.registry import messages
from tests.support.background import background
from tests.support.fuzz import messages as any_message
from tests.support.redis import redis_server

SERVICE = registry_pb2.DESCRIPTOR.services_by_name["RegistryService"]
METHODS = [method.name for method in SERVICE.methods]
TIMEOUT = 20.0
ENGINES = ("d0", "p0")


class Fuzzed:
    """A registry that serves, with sessions and a lease that messages may be about."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.channel = grpc.insecure_channel(address)
        registry: Any = registry_pb2_grpc.RegistryServiceStub(self.channel)
        opened = [registry.OpenSession(registry_pb2.OpenSessionRequest(engine=messages.engine(x))) for x in ENGINES]
        known = opened[0].credential
        registry.GrantLease(messages.grant(known))
        wrong = registry_pb2.SessionCredential(session_id=known.session_id, session_secret="wrong")  # noqa: S106
        self.hints: dict[str, st.SearchStrategy[Any]] = {
            "credential": st.sampled_from([known, known, opened[1].credential, wrong]),
            "lease_id": st.sampled_from(["l1", "l1", "l2", "x", ""]),
            "lease_ids": st.sampled_from(["l1", "l2"]),
            "freed_lease_ids": st.sampled_from(["l1", "l2", ""]),
            "claim_id": st.sampled_from(["c1", "c2", ""]),
            "ticket_id": st.sampled_from(["k1", "k2", ""]),
            "conversation": st.sampled_from([messages.chat(), messages.chat("other"), lease_pb2.ConversationKey()]),
            "conversation_id": st.sampled_from(["chat", "\0", "x" * 300]),
            "handle": st.sampled_from([messages.handle(), messages.handle("some text, and more"), lease_pb2.Handle()]),
            "branch": st.sampled_from([messages.branch("some text"), registry_pb2.BranchTarget(stride=1)]),
            "engine": st.sampled_from([messages.engine("p0"), messages.engine("new"), registry_pb2.Engine()]),
            "received_number": st.sampled_from([0, 1, 2**32 - 1]),
            "page_token": st.sampled_from(["", "1", "-1", "9" * 19, "9" * 20, "é"]),
        }

    def send(self, method: str, request: bytes) -> KvleaseError | None:
        """Returns what the caller is told; None: it was served."""
        path = f"/kvlease.v1.RegistryService/{method}"
        try:
            if SERVICE.methods_by_name[method].server_streaming:
                watch: Any = self.channel.unary_stream(path)
                stream = watch(request, timeout=TIMEOUT)
                next(stream)
                stream.cancel()
            else:
                call: Any = self.channel.unary_unary(path)
                call(request, timeout=TIMEOUT)
        except grpc.RpcError as error:
            return from_rpc(error)
        return None


@pytest.fixture(scope="module", params=[MEMORY, "redis"])
def registry(request: pytest.FixtureRequest) -> Iterator[Fuzzed]:
    """Serves on a thread of its own, so that each example is one call."""
    with ExitStack() as stack:
        store = MEMORY if request.param == MEMORY else stack.enter_context(redis_server()).url
        server, _ = stack.enter_context(background(lambda: messages.served(Settings(store=store, store_timeout=20.0))))
        fuzzed = Fuzzed(server.address)
        yield fuzzed
        fuzzed.channel.close()


def check(told: KvleaseError | None) -> None:
    """A refusal has a reason that the API names, and is no fault of the server."""
    assert told is None or told.reason, repr(told)
    assert not isinstance(told, ServerFault | Unimplemented | StoreUnreachable), repr(told)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_message_is_a_fault_of_the_server(registry: Fuzzed, method: str, data: st.DataObject) -> None:
    request = data.draw(any_message(getattr(registry_pb2, f"{method}Request"), registry.hints))

    check(registry.send(method, request.SerializeToString()))


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=20, deadline=None)
@given(data=st.binary(max_size=200))
def test_no_bytes_are_a_fault_of_the_server(registry: Fuzzed, method: str, data: bytes) -> None:
    check(registry.send(method, data))


def test_it_still_serves(registry: Fuzzed) -> None:
    stub: Any = registry_pb2_grpc.RegistryServiceStub(registry.channel)
    stub.OpenSession(registry_pb2.OpenSessionRequest(engine=messages.engine("last")))

    with Client(registry=registry.address) as client:
        assert "last" in {engine.ref.engine_id for engine in client.list_engines()}
