"""HTTPS, with the gateway's own server."""

import asyncio
import shutil
import ssl
from pathlib import Path

import httpx
import pytest

from kvlease.cli.authority import Authority
from kvlease.rpc import Protection
from kvlease.rpc.tls import Tls
from tests.gateway.stack import running
from tests.support.credentials import DAY, HOSTS, certificates, tls
from tests.support.openai_engine import FakeEngine

PROTECTION = Protection(tls=tls("gateway", mutual=False))


def trust(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=folder / "ca.pem")


async def test_answers_and_streams_are_the_same_as_without() -> None:
    async with running(protection=PROTECTION, verify=trust(certificates())) as stack:
        assert stack.gateway.url.startswith("https://")
        answer = await stack.chat()
        streamed = await stack.chat(stream=True)
        again = await stack.chat()

    assert (answer.status_code, streamed.status_code, again.status_code) == (200, 200, 200)
    assert answer.json()["choices"][0]["message"]["content"] == "Hello from afar"
    assert streamed.text.endswith("data: [DONE]\n\n")


async def test_plain_text_gets_no_answer() -> None:
    async with running(protection=PROTECTION, verify=trust(certificates())) as stack, httpx.AsyncClient() as http:
        with pytest.raises(httpx.TransportError):
            await http.get(stack.gateway.url.replace("https:", "http:") + "/health")


async def test_a_client_that_leaves_during_a_stream_is_noticed() -> None:
    async with running(protection=PROTECTION, verify=trust(certificates())) as stack:
        stack.decode.gate.clear()
        asking = asyncio.create_task(stack.chat(stream=True))
        await stack.decode.request()
        asking.cancel()
        await stack.called("CancelTicket")
        stack.decode.gate.set()


async def test_a_new_certificate_is_taken_without_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "in use"
    shutil.copytree(certificates(), folder)
    protection = Protection(tls=Tls(cert=folder / "gateway.pem", key=folder / "gateway.key"))
    async with running(protection=protection, verify=trust(certificates())) as stack:
        other = Authority.open(tmp_path / "other", life=DAY)
        other.issue("gateway", "gateway", HOSTS, life=DAY)
        for file in ("gateway.key", "gateway.pem"):
            (other.folder / file).replace(folder / file)

        async with asyncio.timeout(20):
            while not await _answers(stack.gateway.url, trust(other.folder)):
                pass
        assert (await stack.chat()).status_code == 200  # the old connection is still good


async def test_engines_with_https_are_believed_on_their_authority() -> None:
    engine, served = FakeEngine(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(certificates() / "engine.pem", certificates() / "engine.key")
    await engine.start(served)
    try:
        for ca, status in ((certificates() / "ca.pem", 200), (None, 503)):
            async with running(engine_ca=ca, retries=0, memory=0.01) as stack:
                stack.registry.engines["decode"].engine.http_url = engine.url
                assert (await stack.chat()).status_code == status
    finally:
        await engine.stop()


async def _answers(url: str, context: ssl.SSLContext) -> bool:
    async with httpx.AsyncClient(verify=context) as http:
        try:
            return (await http.get(f"{url}/health")).status_code == httpx.codes.OK
        except httpx.ConnectError:
            return False
