"""Registry, router, gateway and what they serve over gRPC: starting, stopping, many streams, large messages."""

import asyncio
import contextlib
import gc
import re
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2

from kvlease.client.channel import OPTIONS
from kvlease.local import ports
from kvlease.v1 import registry_pb2, registry_pb2_grpc
from tests.conftest import Seen
from tests.e2e.processes import Service
from tests.registry.messages import AS_TENANT, chat, claim, grant, handle, opened, served, stub
from tests.support.servers import health

BIN = Path(sys.executable).parent
ANY = "127.0.0.1:0"
NOBODY = "127.0.0.1:1"
COMMANDS = {
    "kvlease-registry": ("--listen", ANY),
    "kvlease-router": ("--listen", ANY, "--registry", NOBODY),
    "kvlease-gateway": ("--listen", ANY, "--registry", NOBODY, "--router", NOBODY),
    "kvlease up": ("--registry", ANY, "--router", ANY, "--gateway", ANY),
    "kvlease sim-engine": ("--port", "0", "--registry", NOBODY, "--router", NOBODY),
}
READY = re.compile(rb"\bready\b|waiting for engines")
STREAMS, BATCH = 5_000, 250
GRACE = 0.5  # seconds
MIB = 1024 * 1024


@pytest.mark.case(39)
@pytest.mark.parametrize("name", COMMANDS)
async def test_every_command_serves_and_stops(name: str, seen: Seen) -> None:
    program, *subcommand = name.split()
    process = await asyncio.create_subprocess_exec(
        BIN / program,
        *subcommand,
        *COMMANDS[name],
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    async with asyncio.timeout(60):
        said = b""
        while not READY.search(said):
            line = await process.stdout.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGTERM)
        await process.stdout.read()
        code = await process.wait()
    seen(f"{name}: ready, SIGTERM, exit {code}")
    assert code == 0


@pytest.mark.case(41)
async def test_streams_that_come_and_go_leave_nothing(seen: Seen) -> None:
    async with served() as (_, registry):
        await _watch(registry, 500)  # what is allocated once
        tasks, before = len(asyncio.all_tasks()), _megabytes()

        await _watch(registry, STREAMS)

        async with asyncio.timeout(30):
            while (left := len(asyncio.all_tasks()) - tasks) > 0:  # noqa: ASYNC110 - the server hears of it later
                await asyncio.sleep(0.05)
        grown = _megabytes() - before
    seen(f"{STREAMS} streams: {left} more tasks, {grown:.0f} MB more")
    assert grown < 50


@pytest.mark.case(42)
async def test_a_stopping_registry_says_so_and_is_gone(tmp_path: Path, seen: Seen) -> None:
    [port] = ports.free(1)
    service = Service("registry", port, ["--grace", f"{round(GRACE * 1000)}ms"], tmp_path)
    await asyncio.to_thread(service.start)
    async with grpc.aio.insecure_channel(service.address) as channel:
        watches = [registry_pb2_grpc.RegistryServiceStub(channel).WatchLeases(_everything()) for _ in range(10)]
        for watch in watches:
            await watch.read()  # what exists: nothing
        told = health(channel).Watch(health_pb2.HealthCheckRequest())
        assert (await told.read()).status == health_pb2.HealthCheckResponse.SERVING
        begun = time.monotonic()
        service.signal(signal.SIGTERM)

        status = (await told.read()).status

        said = time.monotonic() - begun
        await asyncio.to_thread(service.wait)
        gone = time.monotonic() - begun
        codes = {await _end_of(watch) for watch in watches}
    seen(f"NOT_SERVING after {said:.2f} s, gone after {gone:.2f} s; its grace is {GRACE:g} s")
    assert status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert codes == {grpc.StatusCode.UNAVAILABLE}


@pytest.mark.case(43)
async def test_a_list_of_a_thousand_large_handles_arrives(seen: Seen) -> None:
    large = handle()
    large.token_count, large.block_count, large.body = 128_000, 8_000, bytes(16_000)
    large.chain.digests = bytes(8 * 1000)
    large.chain.stride = 128
    async with served() as (server, _), grpc.aio.insecure_channel(server.address, OPTIONS) as channel:
        registry = stub(channel)
        decode = await opened(registry, blocks=100_000_000)
        for number in range(1000):
            await registry.GrantLease(grant(decode, f"l{number}", handle=large, conversation=chat(f"c{number}")))

        everything = registry_pb2.ListLeasesRequest(page_size=1000, view=registry_pb2.LEASE_VIEW_FULL)
        page = await registry.ListLeases(everything, metadata=AS_TENANT)

        claimed = await registry.ClaimLease(claim(decode, lease_id="l0"))

    size = page.leases[0].handle.ByteSize()
    seen(f"a handle of {size:,} bytes claimed, {len(page.leases)} listed in {page.ByteSize() / MIB:.0f} MiB")
    assert claimed.lease.handle == large
    assert len(page.leases) == 1000
    assert page.leases[0].handle == large


async def _end_of(stream: Any) -> grpc.StatusCode:
    """Reads a stream to its end; returns how it ended."""
    with contextlib.suppress(grpc.aio.AioRpcError):
        while await stream.read() is not grpc.aio.EOF:
            pass
    code: grpc.StatusCode = await stream.code()
    return code


async def _watch(registry: Any, count: int) -> None:
    """Opens so many streams, a batch at a time, reads of each and cancels it."""
    for _ in range(count // BATCH):
        streams = [registry.WatchLeases(_everything(), metadata=AS_TENANT) for _ in range(BATCH)]
        await asyncio.gather(*(stream.initial_metadata() for stream in streams))
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*(stream.code() for stream in streams))
    await asyncio.sleep(0)
    gc.collect()


def _everything() -> registry_pb2.WatchLeasesRequest:
    return registry_pb2.WatchLeasesRequest()


def _megabytes() -> float:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
