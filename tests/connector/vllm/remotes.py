"""KV that another engine holds under a lease, and the answers that the control plane gives about it."""

import itertools
import math
from collections.abc import Sequence

from kvlease.connector import body
from kvlease.connector.admission import chain_of
from kvlease.connector.claim import Claim
from kvlease.connector.turn import Answer, Turn
from kvlease.v1.lease_pb2 import Handle, Lease
from tests.connector.requests import Request
from tests.connector.vllm.engine import Engine
from tests.connector.vllm.memory import BLOCK, Memory, trace

NAMES = itertools.count(1)


class Remote:
    """The KV of *tokens*, in blocks of its own, read by *reader*."""

    def __init__(self, reader: Engine, tokens: Sequence[int]) -> None:
        self.reader, self.tokens = reader, list(tokens)
        self.name = f"remote-{next(NAMES)}"
        self.block_ids = list(range(5000, 5000 - (-len(self.tokens) // BLOCK)))
        self.memory = reader.workers.peers[self.name] = Memory()
        self.memory.write(self.block_ids, trace(self.tokens), 0, len(self.tokens))

    def spoil(self) -> None:
        """Gives the blocks to somebody else, as an owner may once the lease is over."""
        self.memory.write(self.block_ids, trace([-1] * len(self.tokens)), 0, len(self.tokens))

    def answer(self, turn: Turn, *, end: float = math.inf, groups: Sequence[Sequence[int]] | None = None) -> Answer:
        """Answers as the link does when it got a claim until *end*."""
        leasing = self.reader.leasing
        count = len(self.tokens)
        chain = chain_of(
            Request(prompt=self.tokens), turn.terms, leasing._settings, leasing._engine.kv_layout, self.tokens
        )
        lease = Lease(lease_id=self.name, handle=Handle(token_count=count, chain=chain.prefix(count)))
        address = {"remote_engine_id": self.name, "remote_host": "h", "remote_port": 1}
        return Answer(
            Claim(f"claim on {self.name}", lease, end),
            turn.chain().proved(lease.handle.chain, count),
            body.decode(body.encode(address, groups or [self.block_ids])),
        )
