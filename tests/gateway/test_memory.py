"""A request's body is let go with its answer: the collector of cyclic garbage looks seldom, and prompts are large."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from kvlease.gateway.http.message import Request
from tests.gateway.stack import Stack

MARK = "an unmistakable prompt"


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def kept() -> list[Request]:
    return [each for each in gc.get_objects() if isinstance(each, Request) and MARK.encode() in each.body]


@pytest.mark.usefixtures("without_collector")
@pytest.mark.parametrize("extra", [{}, {"stream": True}])
async def test_nothing_keeps_a_request_that_was_answered(stack: Stack, extra: dict[str, Any]) -> None:
    for _ in range(3):
        response = await stack.chat(messages=[{"role": "user", "content": MARK}], **extra)
        assert response.status_code == 200
    await stack.called("CompleteTicket", 3)
    for _ in range(10):
        await asyncio.sleep(0)

    assert not kept()
