"""The connector in vLLM's workers: stock NIXL reads, plus reads that the scheduler has thrown away."""

from typing import Any

import structlog
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_worker import NixlPullConnectorWorker

from kvlease.connector.versions import REPORTS_FAILED_REQUESTS

log = structlog.get_logger()


class LeasingWorker(NixlPullConnectorWorker):  # type: ignore[misc]
    """Reports requests as failed when the scheduler says so, whether their read has ended or never began."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Takes what the stock worker takes."""
        super().__init__(*args, **kwargs)
        self._thrown_away: dict[str, list[int]] = {}  # request id -> its block ids
        self._abandoned: set[str] = set()  # their handshake may still end
        self._stuck: list[Any] = []  # transfers that NIXL has not let go of yet
        self._invalid: set[int] = set()

    def start_load_kv(self, metadata: Any) -> None:
        """Starts reads; gives up those that the scheduler no longer waits for."""
        self._stuck = [transfer for transfer in self._stuck if not self._released(transfer)]
        if thrown_away := getattr(metadata, "kvlease_thrown_away", None):
            self._thrown_away |= thrown_away
            for request_id in metadata.kvlease_abandoned:
                self._abandon(request_id)
        super().start_load_kv(metadata)

    def get_finished(self) -> tuple[set[str], set[str]]:
        """Adds what was thrown away to the requests that are done; the blocks count as invalid."""
        if REPORTS_FAILED_REQUESTS:  # 0.32 calls `get_transfer_results`, and this only for compatibility
            results = self.get_transfer_results()
            return results.finished_sending, results.finished_recving
        sent, received = super().get_finished()
        received = self._without_abandoned(received)
        thrown_away = self._take()
        self._invalid.update(block_id for ids in thrown_away.values() for block_id in ids)
        return sent, received | thrown_away.keys()

    def get_block_ids_with_load_errors(self) -> set[int]:
        """Adds the blocks of what was thrown away."""
        invalid, self._invalid = self._invalid, set()
        return super().get_block_ids_with_load_errors() | invalid  # type: ignore[no-any-return]

    if REPORTS_FAILED_REQUESTS:

        def get_transfer_results(self) -> Any:
            """Adds what was thrown away, as failed."""
            results = super().get_transfer_results()
            thrown_away = self._take()
            results.finished_recving = self._without_abandoned(results.finished_recving) | thrown_away.keys()
            results.failed_recving |= thrown_away.keys()
            return results

    def _read_blocks_for_req(self, req_id: str, meta: Any) -> None:
        if req_id in self._abandoned:  # its handshake came too late
            self._abandoned.discard(req_id)
            self._recving_metadata.pop(req_id, None)
            return
        super()._read_blocks_for_req(req_id, meta)

    def _abandon(self, request_id: str) -> None:
        """Forgets a read that takes too long. The scheduler keeps its blocks out of use for a while.

        One whose end has been reported, though the scheduler has not heard of it yet, is not reported twice.
        """
        if request_id not in self._recving_metadata:
            del self._thrown_away[request_id]
            return
        handles = self._recving_transfers.pop(request_id, None)
        if handles is None:
            self._abandoned.add(request_id)
            return
        del self._recving_metadata[request_id]
        if stuck := [transfer for transfer in handles if not self._released(transfer)]:
            log.warning("transfers not cancelled yet", request_id=request_id, transfers=len(stuck))
            self._stuck += stuck

    def _released(self, transfer: Any) -> bool:
        """Cancels a transfer; NIXL refuses while it cannot."""
        try:
            self.nixl_wrapper.release_xfer_handle(transfer)
        except Exception:  # noqa: BLE001 - NIXL's errors have no common class in all versions
            return False
        return True

    def _without_abandoned(self, received: set[str]) -> set[str]:
        """Drops reads whose handshake failed after they were abandoned: vLLM has heard of them already."""
        late = received & self._abandoned
        self._abandoned -= late
        return received - late

    def _take(self) -> dict[str, list[int]]:
        thrown_away, self._thrown_away = self._thrown_away, {}
        return thrown_away
