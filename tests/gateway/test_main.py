"""The command line."""

import asyncio
import os
import signal
import sys

import pytest

from kvlease.gateway.__main__ import main
from kvlease.gateway.http.limits import Limits
from kvlease.gateway.settings import Settings


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--listen", "0.0.0.0:1"], "--insecure"),
        (["--listen", "here"], "no listen address"),
        (["--wait", "0s"], "wait must be above 0"),
        (["--retries", "-1"], "must not be negative"),
        (["--body-bytes", "0"], "body_bytes must be positive"),
    ],
)
def test_settings_that_cannot_be_are_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)

    assert left.value.code == 2
    assert message in capsys.readouterr().err


def test_defaults_are_sound() -> None:
    assert Settings(limits=Limits()).listen == "127.0.0.1:8440"


async def test_it_says_that_it_is_ready_and_stops_when_told() -> None:
    arguments = ("-m", "kvlease.gateway", "--listen", "127.0.0.1:0", "--registry", "127.0.0.1:9")
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments, stderr=asyncio.subprocess.PIPE)
    assert process.stderr is not None
    try:
        async with asyncio.timeout(60):
            while b"ready gateway http://127.0.0.1:" not in await process.stderr.readline():
                pass
            os.kill(process.pid, signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
