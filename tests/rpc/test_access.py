"""Who may call what."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from kvlease.rpc import Protection, Role, Service
from kvlease.rpc.access import ACCESS
from kvlease.v1 import registry_pb2, router_pb2
from tests.support.credentials import keys_file, shown
from tests.support.servers import Methods, a_service, reason_of, serving

SERVICES = {
    file.DESCRIPTOR.services_by_name[name].full_name: file.DESCRIPTOR.services_by_name[name]
    for file, name in ((registry_pb2, "RegistryService"), (router_pb2, "RoutingService"))
}
MESSAGES = {"RegistryService": registry_pb2, "RoutingService": router_pb2}
NAMES = {Role.APPLICATION: "a"}


def agreeable(name: str) -> Service:
    """Returns a service whose methods all answer with nothing."""
    descriptor = SERVICES[name]
    messages = MESSAGES[descriptor.name]
    methods: Methods = {
        method.name: (_answering(getattr(messages, method.output_type.name)), getattr(messages, method.input_type.name))
        for method in descriptor.methods
    }
    return a_service(name, methods)


def _answering(kind: Any) -> Any:
    async def answer(_request: Any, _context: Any) -> Any:
        return kind()

    return answer


def test_the_table_names_every_call_and_no_other() -> None:
    offered = {f"/{name}/{method.name}" for name, service in SERVICES.items() for method in service.methods}

    assert set(ACCESS) == offered


def test_nobody_but_engines_touches_what_engines_own() -> None:
    for method in ("OpenSession", "GrantLease", "AnnounceLeases", "ReleaseLease", "ClaimLease"):
        assert ACCESS[f"/kvlease.v1.RegistryService/{method}"] == {Role.ENGINE}
    assert ACCESS["/kvlease.v1.RegistryService/RevokeLeases"] == {Role.OPERATOR}


@pytest.mark.parametrize("name", SERVICES)
async def test_each_role_may_call_its_own_methods_only(name: str, tmp_path: Path) -> None:
    protection = Protection(keys_file=keys_file(tmp_path))
    async with serving(agreeable(name), protection=protection) as (_, channel):
        for method in [method for method in ACCESS if method.startswith(f"/{name}/")]:
            call: Any = channel.unary_unary(method)
            for role in Role:
                metadata = shown(role, NAMES.get(role, ""))
                if role in ACCESS[method]:
                    assert await call(b"", metadata=metadata) == b""
                    continue
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await call(b"", metadata=metadata)
                assert (caught.value.code(), reason_of(caught.value)) == (
                    grpc.StatusCode.PERMISSION_DENIED,
                    "ROLE_DENIED",
                )
