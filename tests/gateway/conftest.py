from collections.abc import AsyncIterator

import pytest

from tests.gateway.stack import Stack, running


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    """A stack with the default settings."""
    async with running() as made:
        yield made
