"""The real grpcurl lists, describes and calls the router."""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Seen
from tests.router.registry_server import routed

GRPCURL = shutil.which("grpcurl", path=str(Path(sys.executable).parent)) or shutil.which("grpcurl")
NAME = "kvlease.v1.RoutingService"

pytestmark = pytest.mark.skipif(GRPCURL is None, reason="grpcurl is not installed")


async def grpcurl(address: str, *arguments: str, data: dict[str, Any] | None = None) -> str:
    assert GRPCURL
    given = ["-d", json.dumps(data)] if data is not None else []
    process = await asyncio.create_subprocess_exec(
        GRPCURL, "-plaintext", *given, address, *arguments, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


async def test_it_lists_and_describes_the_service() -> None:
    async with routed() as to:
        assert NAME in await grpcurl(to.router.address, "list")
        assert f"{NAME}.Route" in await grpcurl(to.router.address, "list", NAME)
        assert "rpc Route" in await grpcurl(to.router.address, "describe", NAME)


@pytest.mark.case(45)
async def test_it_calls_every_method(seen: Seen) -> None:
    async with routed() as to:

        async def call(method: str, **data: Any) -> Any:
            return json.loads(await grpcurl(to.router.address, f"{NAME}/{method}", data=data))

        turn = await call("Route", request_id="r", conversation_id="c", model="m", prompt_tokens=100)
        ticket, prefill, decode = turn["ticket"], turn["prefill"]["engine"], turn["decode"]["engine"]
        assert (await call("ResolveTicket", ticket=ticket, engine=decode, wait="0.01s"))["leg"] == "LEG_DECODE"
        report = {"prompt_tokens": 100, "computed_tokens": 100}
        assert await call("PublishPrefill", ticket=ticket, engine=prefill, lease_id="l", report=report) == {}
        done = await call("CompleteTicket", ticket=ticket, stop_reason="STOP_REASON_ANSWERED")
        assert done["report"]["computed_tokens"] == "100"
        assert await call("CancelTicket", ticket=ticket) == {}
        known = await call("GetTicket", ticket_id=turn["ticket_id"])
        assert known["ticket"]["state"] == "TICKET_STATE_COMPLETED"
        assert len((await call("ListTickets"))["tickets"]) == 1
    seen("router: all methods called")
