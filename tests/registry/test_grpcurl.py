"""The real grpcurl lists, describes and calls the registry."""

import asyncio
import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Seen
from tests.registry.digests import KEY_ID, STRIDE, digests
from tests.registry.messages import served

GRPCURL = Path(sys.executable).parent / "grpcurl"
NAME = "kvlease.v1.RegistryService"
CHAT = {"tenant": "default", "conversation_id": "chat"}


async def grpcurl(address: str, *arguments: str, data: dict[str, Any] | None = None) -> str:
    """What it prints; fails when it does."""
    given = [] if data is None else ["-d", json.dumps(data)]
    process = await asyncio.create_subprocess_exec(
        GRPCURL,
        *("-plaintext", *given, address, *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode()


@pytest.mark.case(45)
async def test_it_lists_and_describes(seen: Seen) -> None:
    async with served() as (server, _):
        listed = await grpcurl(server.address, "list")
        described = await grpcurl(server.address, "describe", NAME)

    assert NAME in listed.split()
    assert "rpc ClaimLease" in described
    seen(f"registry: {len(listed.split())} services listed, {described.count('rpc ')} methods described")


@pytest.mark.case(45)
async def test_it_calls(seen: Seen) -> None:
    handle = {
        "engine": {"engine_id": "d0", "incarnation": "i1"},
        "request_id": "r1",
        "token_count": 8,
        "block_count": 1,
        "chain": {"key_id": KEY_ID, "stride": STRIDE, "digests": base64.b64encode(digests("abcdefgh")).decode()},
        "body_format": "test/1",
    }
    async with served() as (server, _):

        async def call(method: str, **data: Any) -> Any:
            return json.loads(await grpcurl(server.address, f"{NAME}/{method}", data=data))

        engine = {"ref": handle["engine"], "role": "ENGINE_ROLE_BOTH", "models": ["m"], "total_blocks": 100}
        engine["http_url"] = "http://127.0.0.1:8000"
        session = (await call("OpenSession", engine=engine))["credential"]
        assert (await call("Heartbeat", credential=session))["number"] == "1"
        grant = {"lease_id": "l1", "kind": "LEASE_KIND_DECODE", "conversation": CHAT, "handle": handle}
        assert (await call("GrantLease", credential=session, **grant))["generation"] == "1"
        claimed = await call("ClaimLease", credential=session, claim_id="c1", lease_id="l1")
        assert claimed["lease"]["state"] == "LEASE_STATE_LIVE"
        outcome = "READ_OUTCOME_USED"
        assert await call("FinishClaim", credential=session, claim_id="c1", outcome=outcome) == {}
        assert (await call("EndConversation", conversation_id="chat"))["leases"] == 1
        assert (await call("ListEngines"))["engines"][0]["healthy"]
    seen("registry: a lease from session to end by grpcurl alone")
