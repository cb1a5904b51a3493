"""The stack of docker-compose.yml, once for all tests; without Docker they are skipped, and say so."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy import images
from tests.deploy.docker import Unavailable, docker
from tests.deploy.stack import Stack, running


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    logs = Path(os.environ.get("KVLEASE_TEST_LOGS") or tmp_path_factory.mktemp("logs"))
    try:
        with docker() as daemon:
            images.ensure(daemon)
            with running(daemon, logs) as made:
                yield made
    except Unavailable as reason:
        pytest.skip(f"THE COMPOSE STACK WAS NOT TESTED: {reason}")
