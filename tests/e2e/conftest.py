"""One stack of real engines for the whole suite; each test leaves it as it found it."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.stack import Stack, running

REFERENCE = "0.29.0"
VERSION = os.environ.get("KVLEASE_TEST_VLLM", REFERENCE)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    logs = Path(os.environ.get("KVLEASE_TEST_LOGS") or tmp_path_factory.mktemp("logs"))
    with running(VERSION, logs / VERSION) as made:
        yield made


@pytest.fixture
def conversation(stack: Stack) -> Iterator[str]:
    """A conversation's name; afterwards it is ended, and no block may be held."""
    name = uuid.uuid4().hex
    yield name
    stack.settle(name)
