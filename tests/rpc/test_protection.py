"""How a server is protected, as its command line says."""

import argparse
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_reflection.v1alpha import reflection_pb2

from kvlease.rpc import OPEN, Protection, Server
from kvlease.rpc.options import add_protection, add_security, protection, security
from kvlease.rpc.tls import Tls, https
from tests.support.credentials import certificates, keys_file, tls
from tests.support.servers import reflection, serving

CERTS = certificates()
MUTUAL = ("--tls-cert", f"{CERTS}/router.pem", "--tls-key", f"{CERTS}/router.key", "--client-ca", f"{CERTS}/ca.pem")


def given(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_protection(parser)
    add_security(parser)
    return parser.parse_args(arguments)


def test_nothing_is_asked_for_by_default() -> None:
    assert protection(given()) == OPEN
    assert OPEN.guard() is None
    assert OPEN.credentials() is None


def test_certificates_and_keys_are_taken_from_the_command_line(tmp_path: Path) -> None:
    keys = keys_file(tmp_path)

    found = protection(given(*MUTUAL, "--keys", str(keys), "--no-reflection"))

    assert found == Protection(tls=tls("router"), keys_file=keys, reflection=False)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--tls-cert", "a"), "give both"),
        (("--tls-key", "a"), "give both"),
        (("--client-ca", "a"), "needs --tls-cert"),
        (("--tls-cert", "nowhere", "--tls-key", "nowhere"), "--tls-cert: nowhere: No such file"),
        (
            ("--tls-cert", f"{CERTS}/router.pem", "--tls-key", f"{CERTS}/gateway.key"),
            "gateway.key: KEY_VALUES_MISMATCH",
        ),
        (("--tls-cert", f"{CERTS}/router.key", "--tls-key", f"{CERTS}/router.key"), "router.key: "),
        ((*MUTUAL[:4], "--client-ca", f"{CERTS}/router.key"), "router.key: "),
        (("--keys", "nowhere"), "--keys: nowhere: No such file"),
        (("--keys", f"{CERTS}/ca.pem"), "ca.pem: "),
    ],
)
def test_what_makes_no_sense_is_refused_at_the_start(arguments: tuple[str, ...], reason: str) -> None:
    with pytest.raises((OSError, ValueError), match=reason):
        protection(given(*arguments))


def test_others_are_served_encrypted_and_authenticated_or_if_somebody_says_so(tmp_path: Path) -> None:
    keys, encrypted = keys_file(tmp_path), tls("router", mutual=False)

    for safe in (
        Protection(tls=tls("router")),
        Protection(tls=encrypted, keys_file=keys),
        Protection(insecure=True),
    ):
        safe.check("0.0.0.0:1")
    for lacking, what in (
        (OPEN, "not encrypted .* or authenticated"),
        (Protection(keys_file=keys), "not encrypted"),
        (Protection(tls=encrypted), "not authenticated"),
    ):
        lacking.check("127.0.0.1:1")
        lacking.check("unix:/tmp/socket")
        with pytest.raises(ValueError, match=what):
            lacking.check("0.0.0.0:1")


def test_a_server_shows_its_own_certificate_to_those_that_it_calls() -> None:
    found = security(given(*MUTUAL, "--ca", f"{CERTS}/ca.pem"), {})

    assert (found.cert, found.key) == (CERTS / "router.pem", CERTS / "router.key")
    assert security(given(*MUTUAL), {}).cert is None


def test_options_go_before_the_environment() -> None:
    environment = {"KVLEASE_CA": "nowhere", "KVLEASE_TOKEN": "t"}

    found = security(given("--ca", f"{CERTS}/ca.pem"), environment)

    assert (found.ca, found.token) == (CERTS / "ca.pem", "t")
    with pytest.raises(FileNotFoundError):
        security(given(), environment)


async def test_reflection_can_be_switched_off() -> None:
    async with serving(protection=Protection(reflection=False)) as (_, channel):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await _listed(reflection(channel).ServerReflectionInfo())

    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def _listed(call: Any) -> None:
    """Asks for the services; already the question may meet the refusal."""
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    await call.read()


def test_a_pair_that_does_not_match_serves_nobody() -> None:
    mixed = Tls(cert=CERTS / "router.pem", key=CERTS / "gateway.key")

    with pytest.raises(ValueError, match=r"gateway\.key: KEY_VALUES_MISMATCH"):
        https(mixed)
    with pytest.raises(ValueError, match=r"gateway\.key: KEY_VALUES_MISMATCH"):
        Server("127.0.0.1:0", [], Protection(tls=mixed))
