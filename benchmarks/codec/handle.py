"""The same handle in both forms."""

import json
import random
from typing import Any

from kvlease.connector import body
from kvlease.connector.prefix import Chain, DigestKey
from kvlease.v1 import lease_pb2

BLOCK_SIZE = 16
VOCABULARY = 150_000


class Given:
    """A history of so many tokens, whose blocks lie anywhere in a pool of that size."""

    def __init__(self, tokens: int, pool: int, *, seed: int = 1) -> None:
        """Draws tokens and block ids."""
        drawn = random.Random(seed)  # noqa: S311 - the same in every run
        self.tokens = [drawn.randrange(VOCABULARY) for _ in range(tokens)]
        ids = drawn.sample(range(pool), -(-tokens // BLOCK_SIZE))
        self.key = DigestKey(b"a key of thirty-two bytes at all")
        self.seed = self.key.seed({"tenant": "default"})
        self.params: dict[str, Any] = {
            "do_remote_prefill": True,
            "do_remote_decode": False,
            "remote_block_ids": [ids],
            "remote_engine_id": "5c1a8e3e-7f0e-4c55-9f1e-0a2f6d4f1b7c",
            "remote_request_id": "cmpl-9f6b3c5e-2a3d-4f6e-8b1a-77c2d1e0f4aa-0",
            "remote_host": "10.0.0.12",
            "remote_port": 5600,
            "tp_size": 1,
            "remote_num_tokens": tokens,
        }
        self.address = {
            name: self.params[name] for name in ("remote_engine_id", "remote_host", "remote_port", "tp_size")
        }
        """What a body says beside blocks; the rest of stock's parameters is in the handle or the ticket."""
        self.chain = Chain(self.key, self.seed, self.tokens).prefix(tokens)
        self.stock = json.dumps(self.params).encode()
        self.message = self.encoded()
        self.wire = self.message.SerializeToString()

    def encoded(self) -> lease_pb2.Handle:
        """The handle as its owner writes it: from lists. Digests are there already."""
        groups = self.params["remote_block_ids"]
        return lease_pb2.Handle(
            engine=lease_pb2.EngineRef(engine_id="decode-0", incarnation="0a2f6d4f1b7c"),
            request_id=self.params["remote_request_id"],
            token_count=len(self.tokens),
            block_count=len(groups[0]),
            chain=self.chain,
            body=body.encode(self.address, groups),
            body_format=body.FORMAT,
        )
