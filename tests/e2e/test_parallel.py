"""Engines of several workers, and several behind one address: prefill and decode need not have equally many.

Every rank reads its share, and the read is judged when all have reported.
"""

import os
import uuid
from pathlib import Path

import pytest

from kvlease.client.types import EngineRef
from tests.conftest import Seen
from tests.e2e.conftest import REFERENCE, VERSION
from tests.e2e.stack import Stack, assert_same, running, tokens

pytestmark = [pytest.mark.engine, pytest.mark.skipif(VERSION != REFERENCE, reason="the reference version shows it")]

TENSOR, DATA = "--tensor-parallel-size", "--data-parallel-size"
ENOUGH = 12  # conversations, of which every engine gets some
LONG = 60.0  # seconds that a lease lives: the turns of other conversations come between


class Talk:
    """A conversation, each of whose turns is compared with the same prompt computed."""

    def __init__(self, stack: Stack) -> None:
        self.stack, self.name = stack, uuid.uuid4().hex
        self.history, self.held = tokens(500), 0

    def say(self) -> int:
        """Has the next turn answered; returns how many tokens prefill read."""
        stack, reads = self.stack, self.stack.reads()
        said = stack.complete(self.history, self.name)
        assert said.cached == self.held
        assert (stack.reads() > reads) == bool(self.held)
        assert_same(said, stack.cold(self.history))
        stack.leased(self.name)
        self.held = len(self.history) + len(said.tokens) - 1
        self.history += said.tokens + tokens(100)
        return said.cached


@pytest.mark.case(44)
@pytest.mark.parametrize(
    ("prefill", "decode", "engines"), [((TENSOR, "1"), (TENSOR, "2"), 1), ((TENSOR, "2"), (DATA, "2"), 2)]
)
def test_turns_are_reused_between_engines_of_unequally_many_ranks(
    prefill: tuple[str, str],
    decode: tuple[str, str],
    engines: int,
    tmp_path_factory: pytest.TempPathFactory,
    seen: Seen,
) -> None:
    logs = Path(os.environ.get("KVLEASE_TEST_LOGS") or tmp_path_factory.mktemp("logs"))
    names = f"prefill {' '.join(prefill)}, decode {' '.join(decode)}"
    folder = logs / f"{VERSION}{decode[0]}"
    on_prefill, on_decode = {"arguments": prefill}, {"arguments": decode}
    with running(VERSION, folder, prefill=on_prefill, decode=on_decode, ttl=LONG) as stack:
        talks: list[Talk] = []
        owners: set[EngineRef] = set()
        while len(owners) < engines:
            assert len(talks) < ENOUGH, f"all went to {owners}"
            talks.append(Talk(stack))
            talks[-1].say()
            owners |= {lease.engine for lease in stack.leases(talks[-1].name)}
        for talk in talks * 2:
            seen(f"{names}: {talk.say()} reused")
        stack.settle(*(talk.name for talk in talks))
