"""Who a caller is, by what it shows."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from kvlease.cli.authority import Authority
from kvlease.client.engine import EngineRouterClient
from kvlease.client.errors import CredentialsWrong, KvleaseError, Malformed, RoleDenied, Unavailable
from kvlease.client.security import PLAIN, Security
from kvlease.rpc import Protection, Role, Server, caller
from kvlease.rpc.credentials import bearer, role_of
from kvlease.rpc.identity import CredentialsWrong as NoCaller
from kvlease.rpc.tls import Tls
from kvlease.v1 import router_pb2
from tests.support.credentials import DAY, HOSTS, certificates, keys_file, security, shown, tls, token_of
from tests.support.servers import a_service, reason_of, serving

NAME = "kvlease.v1.RoutingService"


async def _tell(_request: Any, context: Any) -> router_pb2.GetTicketResponse:
    found = caller(context)
    terms = router_pb2.TicketTerms(ticket_id=found.engine)
    terms.conversation.tenant = found.tenant
    return router_pb2.GetTicketResponse(ticket=router_pb2.Ticket(terms=terms))


async def _resolve(request: router_pb2.ResolveTicketRequest, context: Any) -> router_pb2.ResolveTicketResponse:
    caller(context).speak_for(request.engine.engine_id)
    return router_pb2.ResolveTicketResponse()


SERVICE = a_service(
    NAME,
    {"GetTicket": (_tell, router_pb2.GetTicketRequest), "ResolveTicket": (_resolve, router_pb2.ResolveTicketRequest)},
)
ASK = router_pb2.GetTicketRequest()


@asynccontextmanager
async def mutual(given: Tls | None = None) -> AsyncIterator[Server]:
    """A server that wants certificates."""
    async with Server("127.0.0.1:0", [SERVICE], Protection(tls=given or tls("router"))) as server:
        yield server


async def tenant_of(address: str, given: Security, tenant: str = "") -> str:
    """Asks a server for the tenant that it takes the caller for."""
    client = EngineRouterClient(address, security=given)
    try:
        found = (await client.get_ticket(ASK, tenant=tenant, timeout=10)).ticket.terms.conversation.tenant
    finally:
        await client.close()
    return found


async def failure(address: str, given: Security, tenant: str = "") -> KvleaseError:
    with pytest.raises(KvleaseError) as caught:
        await tenant_of(address, given, tenant)
    return caught.value


# -- tokens


async def test_a_token_says_whose_tenant_it_is(tmp_path: Path) -> None:
    protection = Protection(keys_file=keys_file(tmp_path))
    token = tmp_path / "token"
    token.write_text(token_of(Role.APPLICATION, "b") + "\n")
    async with serving(SERVICE, protection=protection) as (server, _):
        assert await tenant_of(server.address, Security(token=token_of(Role.APPLICATION, "a"))) == "a"
        assert await tenant_of(server.address, Security(token_file=token)) == "b"
        assert await tenant_of(server.address, Security(token=token_of(Role.OPERATOR)), "c") == "c"
        denied = await failure(server.address, Security(token=token_of(Role.APPLICATION, "a")), "b")

    assert isinstance(denied, RoleDenied)


@pytest.mark.parametrize(
    "metadata",
    [
        (),
        (("authorization", "Bearer wrong"),),
        (("authorization", "Bearer "),),
        (("authorization", "Basic eDp5"),),
        (("authorization", token_of(Role.OPERATOR)),),
        (*shown(Role.OPERATOR), *shown(Role.OPERATOR)),
    ],
)
async def test_whoever_shows_no_token_or_a_wrong_one_is_unauthenticated(metadata: Any, tmp_path: Path) -> None:
    protection = Protection(keys_file=keys_file(tmp_path))
    async with serving(SERVICE, protection=protection) as (_, channel):
        call: Any = channel.unary_unary(f"/{NAME}/GetTicket")
        with pytest.raises(grpc.aio.AioRpcError) as caught, capture_logs() as lines:
            await call(b"", metadata=metadata)

    (line,) = lines
    assert line["event"] == "call denied"
    assert token_of(Role.OPERATOR) not in str(line)
    assert (caught.value.code(), reason_of(caught.value)) == (grpc.StatusCode.UNAUTHENTICATED, "CREDENTIALS_WRONG")


async def test_a_key_that_is_taken_out_of_the_file_opens_nothing_any_more(tmp_path: Path) -> None:
    file = keys_file(tmp_path)
    async with serving(SERVICE, protection=Protection(keys_file=file)) as (server, _):
        client = EngineRouterClient(server.address, security=Security(token=token_of(Role.OPERATOR)))
        await client.get_ticket(ASK)
        file.write_text("keys = []")
        with pytest.raises(CredentialsWrong):
            await _ask_for_ever(client)  # the file is looked at once a second
        await client.close()


async def _ask_for_ever(client: EngineRouterClient) -> None:
    while True:
        await client.get_ticket(ASK)


# -- certificates


async def test_a_certificate_says_who_calls() -> None:
    async with mutual() as server:
        assert await tenant_of(server.address, security("application-a")) == "a"
        assert await tenant_of(server.address, security("gateway"), "z") == "z"
        assert isinstance(await failure(server.address, security("router")), RoleDenied)
        assert isinstance(await failure(server.address, security("application-a"), "b"), RoleDenied)
        assert isinstance(await failure(server.address, security("registry")), CredentialsWrong)


async def test_an_engine_speaks_for_itself_and_its_data_parallel_ranks_alone() -> None:
    async with mutual() as server:
        of_d0 = (("d0", True), ("d0_dp1", True), ("p0", False), ("d0_dp", False), ("d0_dp1x", False))
        for name, engine, allowed in (*(("d0", *case) for case in of_d0), ("", "p0", True)):
            client = EngineRouterClient(server.address, security=security(f"engine-{name}" if name else "engine"))
            request = router_pb2.ResolveTicketRequest()
            request.engine.engine_id = engine
            if allowed:
                await client.resolve_ticket(request)
            else:
                with pytest.raises(RoleDenied, match=f"not those of engine {engine}$"):
                    await client.resolve_ticket(request)
            await client.close()


async def test_without_a_certificate_there_is_no_connection() -> None:
    async with mutual() as server:
        for given in (security(), PLAIN):
            assert isinstance(await failure(server.address, given), Unavailable)


async def test_a_server_of_another_authority_is_not_believed(tmp_path: Path) -> None:
    Authority.open(tmp_path, life=DAY)
    given = Security(ca=tmp_path / "ca.pem")
    async with Server("127.0.0.1:0", [SERVICE], Protection(tls=tls("router", mutual=False))) as server:
        assert isinstance(await failure(server.address, given), Unavailable)


async def test_tokens_do_where_certificates_only_encrypt(tmp_path: Path) -> None:
    protection = Protection(tls=tls("router", mutual=False), keys_file=keys_file(tmp_path))
    async with Server("127.0.0.1:0", [SERVICE], protection) as server:
        given = Security(ca=certificates() / "ca.pem", token=token_of(Role.APPLICATION, "a"))
        assert await tenant_of(server.address, given) == "a"
        assert isinstance(await failure(server.address, security()), CredentialsWrong)


async def test_a_token_goes_before_a_certificate(tmp_path: Path) -> None:
    protection = Protection(tls=tls("router"), keys_file=keys_file(tmp_path))
    async with Server("127.0.0.1:0", [SERVICE], protection) as server:
        told = security("application-a")
        both = Security(ca=told.ca, cert=told.cert, key=told.key, token=token_of(Role.APPLICATION, "b"))
        assert await tenant_of(server.address, both) == "b"
        assert await tenant_of(server.address, told) == "a"


async def test_new_certificates_are_taken_without_a_restart(tmp_path: Path) -> None:
    """Server and client change to another authority: the client as soon as the server turns it down."""
    folder = tmp_path / "in use"
    shutil.copytree(certificates(), folder)
    given = Tls(cert=folder / "router.pem", key=folder / "router.key", client_ca=folder / "ca.pem")
    async with mutual(given) as server:
        mine = Security(ca=folder / "ca.pem", cert=folder / "gateway.pem", key=folder / "gateway.key")
        client = EngineRouterClient(server.address, security=mine)
        await client.get_ticket(ASK)
        other = Authority.open(tmp_path / "other", life=DAY)
        for name in ("router", "gateway"):
            other.issue(name, name, HOSTS, life=DAY)
        for file in ("ca.pem", "router.key", "router.pem", "gateway.key", "gateway.pem"):
            (other.folder / file).replace(folder / file)

        await _until_refused(server.address)

        assert await tenant_of(server.address, mine) == "default"
        await client.get_ticket(ASK)  # the old connection is still good
        await client.close()


async def _until_refused(address: str) -> None:
    """Connects with the old authority's certificate until the server has taken the new one."""
    while True:
        try:
            await tenant_of(address, security("gateway"))
        except Unavailable:
            return


async def test_a_client_that_is_turned_down_shows_its_newer_token(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    async with serving(SERVICE, protection=Protection(keys_file=keys_file(tmp_path))) as (server, _):
        client = EngineRouterClient(server.address, security=Security(token_file=token))
        with pytest.raises(CredentialsWrong):
            await client.get_ticket(ASK)
        token.write_text(token_of(Role.OPERATOR))
        with pytest.raises(CredentialsWrong):
            await client.get_ticket(ASK)
        await client.get_ticket(ASK)
        await client.close()


# -- reading


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("spiffe://d/kvlease/router", (Role.ROUTER, "")),
        ("spiffe://d/kvlease/engine", (Role.ENGINE, "")),
        ("spiffe://any.domain/kvlease/engine/10.0.0.1%3A5600", (Role.ENGINE, "10.0.0.1:5600")),
        ("spiffe://d/kvlease/application/team-a", (Role.APPLICATION, "team-a")),
    ],
)
def test_a_spiffe_id_names_role_and_name(name: str, found: tuple[Role, str]) -> None:
    assert role_of(name) == found


@pytest.mark.parametrize(
    "name",
    [
        "https://d/kvlease/router",
        "spiffe://d/router",
        "spiffe://d/other/router",
        "spiffe://d/kvlease/registry",
        "spiffe://d/kvlease/application",
        "spiffe://d/kvlease/engine/a/b",
        "spiffe://d/",
        "",
    ],
)
def test_other_names_are_nobodys(name: str) -> None:
    with pytest.raises(NoCaller):
        role_of(name)


@pytest.mark.parametrize(
    ("header", "token"), [("Bearer x", "x"), ("bearer  x ", "x"), ("Basic x", ""), ("x", ""), ("", "")]
)
def test_only_bearer_tokens_count(header: str, token: str) -> None:
    assert bearer(header) == token


def test_a_certificate_without_its_key_or_encryption_is_refused() -> None:
    with pytest.raises(ValueError, match="give both"):
        Security.of({"KVLEASE_CA": "ca", "KVLEASE_CERT": "cert"})
    with pytest.raises(ValueError, match="CA of the servers"):
        Security.of({"KVLEASE_CERT": "cert", "KVLEASE_KEY": "key"})


async def test_a_file_that_is_missing_is_told_as_such() -> None:
    told = await failure("127.0.0.1:1", Security(ca=Path("nowhere/ca.pem")))

    assert isinstance(told, Unavailable)
    assert "nowhere/ca.pem" in str(told)
    assert not isinstance(told, Malformed)
