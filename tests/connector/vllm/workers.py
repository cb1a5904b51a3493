"""vLLM's workers, pretended: reads that end when the test says so, and reported as the installed version reports."""

from collections.abc import Iterable
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.utils import KVOutputAggregator
from vllm.v1.outputs import KVConnectorOutput, ModelRunnerOutput

from kvlease.connector.versions import REPORTS_FAILED_REQUESTS
from tests.connector.vllm.memory import Memory


class Workers:
    """Takes each step's metadata, and reports what has ended since the last one."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.peers: dict[str, Memory] = {}
        self.reads: dict[str, Any] = {}
        self.stock: Any = None
        self._ended: set[str] = set()
        self._failed: set[str] = set()
        self._invalid: set[int] = set()

    def take(self, metadata: Any) -> None:
        """Starts reads and gives up others, as `LeasingWorker` does."""
        self.stock = metadata
        thrown_away = dict(getattr(metadata, "kvlease_thrown_away", {}))
        for request_id in metadata.kvlease_abandoned if thrown_away else ():
            if self.reads.pop(request_id, None) is None:
                del thrown_away[request_id]  # its end was reported before
        for request_id, read in metadata.reqs_to_recv.items():
            ours, theirs = read.local_block_ids, read.remote.block_ids
            if any(ours):
                assert len(ours) == len(theirs)
                assert all(len(o) <= len(t) for o, t in zip(ours, theirs, strict=True)), "workers assert this, and die"
                self.reads[request_id] = read
        for request_id, block_ids in thrown_away.items():
            self._fail(request_id, block_ids)

    def end(self, request_id: str) -> None:
        """A read ends well, after it copied what its owner's blocks hold by now."""
        read = self.reads.pop(request_id)
        for ours, theirs in zip(read.local_block_ids, read.remote.block_ids, strict=True):
            self.memory.copy(self.peers[read.remote.engine_id], theirs, ours)
        self._ended.add(request_id)

    def fail(self, request_id: str) -> None:
        """A read fails."""
        read = self.reads.pop(request_id)
        self._fail(request_id, [block_id for ids in read.local_block_ids for block_id in ids])

    def report(self) -> KVConnectorOutput | None:
        """Returns what has ended since the last report."""
        if not self._ended:
            return None
        output = KVConnectorOutput(finished_recving=set(self._ended), invalid_block_ids=set(self._invalid))
        if REPORTS_FAILED_REQUESTS:
            output.failed_recving = set(self._failed)
        self._ended.clear()
        self._failed.clear()
        self._invalid.clear()
        return output

    def _fail(self, request_id: str, block_ids: Iterable[int]) -> None:
        self._ended.add(request_id)
        if REPORTS_FAILED_REQUESTS:
            self._failed.add(request_id)
        else:
            self._invalid.update(block_ids)


class Ranks:
    """Two workers of one engine, whose reports vLLM puts together: a read has ended when both say so."""

    def __init__(self, memory: Memory) -> None:
        self.ranks = [Workers(memory), Workers(memory)]
        self.together = KVOutputAggregator(2)
        self.ranks[1].peers = self.peers = self.ranks[0].peers

    def take(self, metadata: Any) -> None:
        for rank in self.ranks:
            rank.take(metadata)

    def report(self) -> KVConnectorOutput | None:
        outputs = [
            ModelRunnerOutput(req_ids=[], req_id_to_index={}, kv_connector_output=rank.report()) for rank in self.ranks
        ]
        put_together = self.together.aggregate(outputs)
        assert put_together is not None
        return put_together.kv_connector_output
