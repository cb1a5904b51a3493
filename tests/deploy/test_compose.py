"""The stack of docker-compose.yml serves and reuses, whatever of it is killed, moved, scaled or stopped."""

import asyncio
import json
import shlex
import threading
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.deploy.stack import Stack, get, until
from tests.deploy.talk import load, reuse, stream
from tests.docs.blocks import blocks
from tests.docs.place import Place
from tests.docs.reading import ROOT, read
from tests.sim.stack import running

pytestmark = [pytest.mark.compose, pytest.mark.timeout(600)]  # the first test waits for the images


async def test_a_conversation_that_meets_another_gateway_each_turn_reuses_as_much_as_with_one(stack: Stack) -> None:
    gateways = [(stack.address(x), 8440) for x in stack.running("gateway")]
    async with running() as single:
        place = urlsplit(single.url)
        alone = await asyncio.to_thread(reuse, [(place.hostname or "", place.port or 0)])

    assert len(gateways) == 2
    assert all(later > earlier for earlier, later in pairwise(alone)), alone
    assert reuse(gateways) == alone


def test_all_services_say_that_they_are_healthy(stack: Stack) -> None:
    for service in ("registry", "router", "gateway", "redis"):
        for container in stack.running(service):
            until(lambda x=container: stack.inspect(x, "{{.State.Health.Status}}") == "healthy")  # type: ignore[misc]


def test_nothing_runs_as_root_or_writes_to_its_image(stack: Stack) -> None:
    for container in stack.running():
        assert stack.inspect(container, "{{.Config.User}}") not in ("", "0", "root")
        assert stack.inspect(container, "{{.HostConfig.ReadonlyRootfs}}") == "true"


def test_prometheus_sees_every_service_and_engine(stack: Stack) -> None:
    port = stack.published("prometheus", 9090)

    def up() -> list[str]:
        found = json.loads(get("127.0.0.1", port, "/api/v1/query?query=up==1")[1])["data"]["result"]
        return sorted(x["metric"]["job"] for x in found)

    until(lambda: up() == sorted(2 * ["engine", "gateway", "registry", "router"]))


@pytest.mark.parametrize("service", ["registry", "router", "gateway"])
def test_killing_one_of_two_fails_no_request(stack: Stack, service: str) -> None:
    with load(*stack.balancer) as turns:
        stack.docker("kill", stack.running(service)[0])
        turns.more(20)
        assert stack.reuses()
        stack.up()

    assert turns.failures == []
    assert stack.reuses()


def test_stopping_one_of_two_fails_no_request(stack: Stack) -> None:
    with load(*stack.balancer) as turns:
        for service in ("registry", "router", "gateway"):
            stopped = stack.running(service)[0]
            stack.docker("stop", stopped)
            assert stack.inspect(stopped, "{{.State.ExitCode}}") == "0"
        turns.more(20)
        stack.up()

    assert turns.failures == []


def test_without_redis_requests_are_served_and_reuse_comes_back_with_it(stack: Stack) -> None:
    with load(*stack.balancer) as turns:
        stack.docker("kill", *stack.running("redis"))
        turns.more(20)
        stack.up()
        until(stack.reuses)

    assert turns.failures == []


@pytest.mark.parametrize("service", ["registry", "router"])
def test_a_service_may_come_back_with_another_address(stack: Stack, service: str) -> None:
    before = {stack.address(x) for x in stack.running(service)}
    with load(*stack.balancer) as turns:
        stack.compose("rm", "--force", "--stop", service)
        with stack.squatters(len(before)):
            stack.up()
        turns.more(20)
        until(stack.reuses)

    assert not before & {stack.address(x) for x in stack.running(service)}
    assert turns.failures == []


def test_engines_come_and_go(stack: Stack) -> None:
    with load(*stack.balancer) as turns:
        stack.up("--scale", "sim-decode=2")
        until(lambda: len([x for x in stack.engines() if x["healthy"]]) == 3)
        turns.more(20)
        stack.up("--scale", "sim-decode=1")
        until(lambda: len(stack.engines()) == 2)

    assert turns.failures == []
    assert stack.reuses()


def test_the_page_about_it_tells_what_works(stack: Stack, tmp_path: Path) -> None:
    (told,) = [block for block in blocks(ROOT / "docs" / "deploy.md") if "--scale" in block.text]
    block = replace(told, text=told.text.replace("127.0.0.1:8440", "localhost:{1}".format(*stack.balancer)))
    environment = shlex.join(f"{name}={value}" for name, value in stack.environment.items())
    ours = f'docker-compose() {{ env {environment} {shlex.join(stack.command)} "$@" --no-build; }}'

    read([block], tmp_path, Place(), ahead=ours)

    assert '"object":"chat.completion"' in (tmp_path / "said.log").read_text()
    assert len(stack.running("gateway")) == 3
    assert len(stack.running("sim-decode")) == 4
    stack.up("--scale", "gateway=2", "--scale", "sim-decode=1")


def test_a_gateway_that_is_stopped_ends_what_it_streams(stack: Stack) -> None:
    gateway = stack.running("gateway")[0]
    body = {"messages": [{"role": "user", "content": "tell me"}], "max_tokens": 200, "ignore_eos": True}
    lines = stream(stack.address(gateway), 8440, body)
    first = next(lines)
    stopping = threading.Thread(target=stack.docker, args=("stop", gateway))
    stopping.start()
    rest = b"".join(lines)
    stopping.join()

    assert first.startswith(b"data: ")
    assert rest.rstrip().endswith(b"data: [DONE]")
    assert stack.inspect(gateway, "{{.State.ExitCode}}") == "0"
    stack.up()
