"""Commands against services that encrypt, and ask who is there."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from kvlease.cli.__main__ import main
from kvlease.cli.simulated_engines import plan
from kvlease.client.aio import Client
from kvlease.client.errors import ModelNotFound, NoEngine
from kvlease.client.types import RouteMode
from kvlease.gateway import service as gateway
from kvlease.gateway.settings import Settings as GatewaySettings
from kvlease.local import model
from kvlease.local.launch import ControlPlane
from kvlease.registry import service as registry
from kvlease.registry.settings import Settings as RegistrySettings
from kvlease.router import service as router
from kvlease.router.settings import Settings as RouterSettings
from kvlease.rpc import Protection, Role, Server
from kvlease.sim.fleet import Fleet
from tests.support.background import background
from tests.support.credentials import certificates, keys_file, security, tls, token_of

Capture = pytest.CaptureFixture[str]
Doctor = Callable[..., dict[str, dict[str, Any]]]
ANY = "127.0.0.1:0"
CERTIFICATES = certificates()
CA = ("--ca", str(CERTIFICATES / "ca.pem"))
OPERATOR = (*CA, "--cert", str(CERTIFICATES / "operator.pem"), "--key", str(CERTIFICATES / "operator.key"))

ENGINE = {
    "KVLEASE_CA": str(CERTIFICATES / "ca.pem"),
    "KVLEASE_CERT": str(CERTIFICATES / "engine.pem"),
    "KVLEASE_KEY": str(CERTIFICATES / "engine.key"),
}
FLEET: dict[str, Any] = {"prefill": 1, "decode": 1, "blocks": None, "wait": 2.0, "prefill_prefix_caching": False}


@asynccontextmanager
async def secured(keys: Path) -> AsyncIterator[tuple[str, ...]]:
    """Serves all three as docs/security.md says; gives where they are, as options."""
    protected = Protection(tls=tls("registry"))
    front = Protection(tls=tls("gateway", mutual=False), keys_file=keys)
    async with (
        registry.create(RegistrySettings(protection=protected)) as leases,
        Server(ANY, [leases], protected) as leasing,
        router.create(RouterSettings(registry=leasing.address, security=security("router"))) as routes,
        Server(ANY, [routes], Protection(tls=tls("router"))) as routing,
        gateway.create(
            GatewaySettings(
                listen=ANY,
                registry=leasing.address,
                router=routing.address,
                protection=front,
                security=security("gateway"),
            )
        ) as serving,
        Fleet(plan(ControlPlane(leasing.address, routing.address), environment=ENGINE, **FLEET)),
    ):
        await until_routed(leasing.address, routing.address)
        yield "--registry", leasing.address, "--router", routing.address, "--gateway", serving.url


async def until_routed(registry: str, router: str) -> None:
    """Waits until the router, which looks now and then, has found both engines."""
    async with Client(registry=registry, router=router, security=security("gateway")) as client:
        while True:
            with suppress(ModelNotFound, NoEngine):
                turn = await client.route(model.NAME)
                await client.cancel(turn.ticket)
                if turn.mode is RouteMode.PREFILL_DECODE:
                    return
            await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    keys = keys_file(tmp_path_factory.mktemp("keys"))
    with capture_logs(), background(lambda: secured(keys)) as found:
        yield found


@pytest.fixture
def doctor(places: tuple[str, ...], capsys: Capture) -> Doctor:
    """Runs `kvlease doctor` with options; gives findings by subject."""

    def run(*options: str) -> dict[str, dict[str, Any]]:
        main(("doctor", "--json", "--timeout", "3s", *places, *options))
        return {finding["subject"]: finding for finding in json.loads(capsys.readouterr().out)}

    return run


def test_who_shows_no_certificate_is_told_that_something_listens(doctor: Doctor) -> None:
    found = doctor("--no-requests", *CA)

    for service in ("registry", "router"):
        assert "something listens" in found[service]["what"]
        assert "--cert" in found[service]["advice"]


def test_who_shows_no_key_is_told_so_in_one_line(doctor: Doctor) -> None:
    found = doctor("--no-requests", *OPERATOR)["gateway"]

    assert "but refuses you: 401 Unauthorized: you did not provide an API key" in found["what"]
    assert "--api-key-file" in found["advice"]


def test_who_shows_a_wrong_key_is_told_that_it_is_wrong(doctor: Doctor, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("wrong")

    found = doctor("--no-requests", "--api-key-file", str(key), *OPERATOR)["gateway"]

    assert "401 Unauthorized: incorrect API key provided" in found["what"]
    assert "--keys" in found["advice"]


def test_an_operator_with_an_api_key_finds_all_well(doctor: Doctor, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text(token_of(Role.APPLICATION, "a"))

    found = doctor("--tenant", "a", "--api-key-file", str(key), *OPERATOR)

    assert {finding["level"] for finding in found.values()} == {"ok"}
    assert "which your role may not" in found["router"]["what"]


def test_a_key_that_cannot_be_read_is_wrong_usage(places: tuple[str, ...], capsys: Capture) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(("doctor", *places, "--api-key-file", "/nowhere"))

    assert "the API key cannot be read" in capsys.readouterr().err


def test_a_command_tells_what_failed(places: tuple[str, ...], capsys: Capture) -> None:
    assert main(("explain", "c", "--timeout", "3s", *places[:4])) == 1

    assert "something listens there" in capsys.readouterr().err


def test_a_command_blames_the_service_that_is_not_there(places: tuple[str, ...], capsys: Capture) -> None:
    assert main(("explain", "c", "--timeout", "3s", *places[:2], "--router", "127.0.0.1:1", *OPERATOR)) == 1

    told = capsys.readouterr().err
    assert "no router answers at 127.0.0.1:1" in told
    assert "registry" not in told


def test_only_an_engine_that_there_is_can_be_released(places: tuple[str, ...], capsys: Capture) -> None:
    assert main(("release", "prefill-0", *places[:2], *OPERATOR)) == 0
    assert main(("release", "nope", *places[:2], *OPERATOR)) == 1

    assert "no such engine: nope" in capsys.readouterr().err
