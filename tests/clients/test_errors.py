import re
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from kvlease.client import errors
from kvlease.client.engine import EngineRegistryClient
from kvlease.client.errors import EXCEPTIONS, KvleaseError
from kvlease.client.sync import Client
from kvlease.client.testing import FakeRegistry
from kvlease.v1 import errors_pb2, registry_pb2

ROWS = re.compile(r"^([A-Z_]+) +(?:([A-Z_]+) +)?(\w+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def registry() -> Iterator[FakeRegistry]:
    with FakeRegistry() as registry:
        yield registry


def test_the_docstring_prints_the_table() -> None:
    printed = {(status, reason): name for status, reason, name in ROWS.findall(errors.__doc__ or "")}

    assert printed == {(code.name, reason): kind.__name__ for (code, reason), kind in EXCEPTIONS.items()}


def test_every_reason_of_the_api_has_an_exception() -> None:
    reasons = {name.removeprefix("ERROR_REASON_") for name in errors_pb2.ErrorReason.keys()}  # noqa: SIM118 - an enum

    assert reasons - {"UNSPECIFIED"} == {reason for _, reason in EXCEPTIONS if reason}


def test_a_reason_is_an_exception_below_its_status() -> None:
    for (code, reason), kind in EXCEPTIONS.items():
        assert issubclass(kind, EXCEPTIONS[code, ""]), reason


@pytest.mark.parametrize("kind", EXCEPTIONS.values())
def test_a_thread_sees_the_exception_of_status_and_reason(registry: FakeRegistry, kind: type[KvleaseError]) -> None:
    registry.fail_next(kind("no"))

    with Client(registry=registry.address) as client, pytest.raises(KvleaseError) as raised:
        next(client.watch_leases())  # the one call that is never made again

    assert type(raised.value) is kind
    assert str(raised.value) == "no"


@pytest.mark.parametrize("kind", EXCEPTIONS.values())
async def test_a_task_sees_the_exception_of_status_and_reason(registry: FakeRegistry, kind: type[KvleaseError]) -> None:
    registry.fail_next(kind("no"))
    client = EngineRegistryClient(registry.address)

    with pytest.raises(KvleaseError) as raised:
        await client.get_lease(registry_pb2.GetLeaseRequest(lease_id="lease"))

    assert type(raised.value) is kind
    await client.close()


def test_an_exception_carries_what_the_server_says(registry: FakeRegistry) -> None:
    sent = errors.BudgetExhausted(
        "full", metadata={"blocks": "12"}, retry_after=1.5, violations={"handle.block_count": "too many"}
    )
    registry.fail_next(sent)

    with Client(registry=registry.address) as client, pytest.raises(errors.BudgetExhausted) as raised:
        client.end("conversation")

    assert raised.value.reason == "BUDGET_EXHAUSTED"
    assert raised.value.metadata == {"blocks": "12"}
    assert raised.value.retry_after == 1.5
    assert raised.value.violations == {"handle.block_count": "too many"}


def test_a_very_long_text_arrives_whole(registry: FakeRegistry) -> None:
    registry.fail_next(errors.Malformed("long " * 2000, violations={f"field[{n}]": "fault " * 10 for n in range(100)}))

    with Client(registry=registry.address) as client, pytest.raises(errors.Malformed) as raised:
        client.end("conversation")

    assert len(str(raised.value)) == 10_000
    assert len(raised.value.violations) == 100


class Raised(grpc.RpcError):
    """What gRPC raises, made by hand."""

    def __init__(self, code: grpc.StatusCode, trailing: tuple[tuple[str, bytes], ...] = ()) -> None:
        super().__init__()
        self._code = code
        self._trailing = trailing

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return ""

    def trailing_metadata(self) -> Any:
        return self._trailing


def test_a_status_without_a_row_is_the_base_exception_and_names_it() -> None:
    error = errors.from_rpc(Raised(grpc.StatusCode.DATA_LOSS))

    assert type(error) is KvleaseError
    assert str(error) == "DATA_LOSS"


def test_details_that_cannot_be_read_leave_the_status() -> None:
    error = errors.from_rpc(Raised(grpc.StatusCode.NOT_FOUND, ((errors.DETAILS_KEY, b"\xff\xff"),)))

    assert type(error) is errors.NotFound


def test_a_reason_of_another_domain_is_none_of_ours() -> None:
    info = ErrorInfo(domain="example.com", reason="LEASE_NOT_FOUND")
    status = Status()
    status.details.add().Pack(info)
    error = errors.from_rpc(Raised(grpc.StatusCode.NOT_FOUND, ((errors.DETAILS_KEY, status.SerializeToString()),)))

    assert type(error) is errors.NotFound
    assert not error.reason
