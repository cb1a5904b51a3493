"""Engines of several workers: every rank reads its share, and the read is judged when all have reported."""

import os
import uuid
from pathlib import Path

import pytest

from tests.conftest import Seen
from tests.e2e.conftest import REFERENCE, VERSION
from tests.e2e.stack import assert_same, running, tokens

pytestmark = [pytest.mark.engine, pytest.mark.skipif(VERSION != REFERENCE, reason="the reference version shows it")]


@pytest.mark.case(44)
@pytest.mark.parametrize("prefill_ranks", [1, 2])
def test_turns_are_reused_between_tensor_parallel_engines(
    prefill_ranks: int, tmp_path_factory: pytest.TempPathFactory, seen: Seen
) -> None:
    logs = Path(os.environ.get("KVLEASE_TEST_LOGS") or tmp_path_factory.mktemp("logs"))
    prefill = {"arguments": ["--tensor-parallel-size", str(prefill_ranks)]}
    decode = {"arguments": ["--tensor-parallel-size", "2"]}
    with running(VERSION, logs / f"{VERSION}-tp{prefill_ranks}", prefill=prefill, decode=decode) as stack:
        conversation, history, held = uuid.uuid4().hex, tokens(500), 0
        for turn in range(3):
            reads = stack.reads()

            said = stack.complete(history, conversation)

            assert said.cached == held
            assert (stack.reads() > reads) == bool(turn)
            assert_same(said, stack.cold(history))
            seen(f"{prefill_ranks} prefill and 2 decode ranks, turn {turn + 1}: {said.cached} reused")
            held = len(history) + len(said.tokens) - 1
            history = history + said.tokens + tokens(100)
        stack.settle(conversation)
