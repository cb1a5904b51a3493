"""Commands against services that encrypt, and ask who is there."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from kvlease.cli.__main__ import main
from kvlease.gateway import service as gateway
from kvlease.gateway.settings import Settings as GatewaySettings
from kvlease.registry import service as registry
from kvlease.registry.settings import Settings as RegistrySettings
from kvlease.router import service as router
from kvlease.router.settings import Settings as RouterSettings
from kvlease.rpc import Protection, Server
from tests.support.background import background
from tests.support.credentials import certificates, keys_file, security, tls

Capture = pytest.CaptureFixture[str]
Doctor = Callable[..., dict[str, dict[str, Any]]]
ANY = "127.0.0.1:0"
CERTIFICATES = certificates()
CA = ("--ca", str(CERTIFICATES / "ca.pem"))
OPERATOR = (*CA, "--cert", str(CERTIFICATES / "operator.pem"), "--key", str(CERTIFICATES / "operator.key"))


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
    ):
        yield "--registry", leasing.address, "--router", routing.address, "--gateway", serving.url


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, ...]]:
    keys = keys_file(tmp_path_factory.mktemp("keys"))
    with capture_logs(), background(lambda: secured(keys)) as found:
        yield found


@pytest.fixture
def doctor(places: tuple[str, ...], capsys: Capture) -> Doctor:
    """Runs `kvlease doctor` with options; gives findings by subject."""

    def run(*options: str) -> dict[str, dict[str, Any]]:
        main(("doctor", "--json", "--no-requests", "--timeout", "3s", *places, *options))
        return {finding["subject"]: finding for finding in json.loads(capsys.readouterr().out)}

    return run


def test_who_shows_no_certificate_is_told_that_something_listens(doctor: Doctor) -> None:
    found = doctor(*CA)

    for service in ("registry", "router"):
        assert "something listens" in found[service]["what"]
        assert "--cert" in found[service]["advice"]


def test_who_shows_no_key_is_told_so_in_one_line(doctor: Doctor) -> None:
    found = doctor(*OPERATOR)["gateway"]

    assert found["what"].endswith("but refuses you: 401 Unauthorized")
    assert "--token-file" in found["advice"]


def test_a_command_tells_what_failed(places: tuple[str, ...], capsys: Capture) -> None:
    assert main(("explain", "c", "--timeout", "3s", *places[:4])) == 1

    assert "something listens there" in capsys.readouterr().err


def test_a_command_blames_the_service_that_is_not_there(places: tuple[str, ...], capsys: Capture) -> None:
    assert main(("explain", "c", "--timeout", "3s", *places[:2], "--router", "127.0.0.1:1", *OPERATOR)) == 1

    told = capsys.readouterr().err
    assert "no router answers at 127.0.0.1:1" in told
    assert "registry" not in told
