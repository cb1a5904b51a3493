"""Prefill to decode as a stock proxy does it: block ids in the answer, no ticket, no lease.

For comparing routers on the same engines. The blocks wait for one reader, or for a timer, as stock vLLM's do.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from kvlease.connector.retention import Retention
from kvlease.connector.stock import StockParameters
from kvlease.sim.leasing import Arrivals
from kvlease.sim.request import Request
from kvlease.sim.transfers import Transfer, Transfers

PIN = 480.0  # seconds, as in stock vLLM


class StockHandover:
    """Requests of one engine whose transfer parameters are a stock proxy's."""

    def __init__(
        self,
        retention: Retention,
        transfers: Transfers,
        parameters: Mapping[str, Any],
        *,
        block_size: int,
        clock: Callable[[], float],
    ) -> None:
        """Takes the *parameters* by which others reach this engine."""
        self._retention, self._transfers, self._parameters = retention, transfers, parameters
        self._block_size, self._clock = block_size, clock
        self._tamer = StockParameters(1, block_size)
        self._reading: dict[str, tuple[Request, int]] = {}
        self._pinned: dict[str, float] = {}
        self._read: deque[str] = deque()
        self._arrived: Arrivals = []

    def admit(self, request: Request) -> None:
        """Takes out of a new request's parameters what stock code could not take."""
        if request.kv_transfer_params:
            self._tamer.tame(request.kv_transfer_params, request.num_prompt_tokens)

    def offer(self, request: Request, local_tokens: int) -> int:
        """Returns how many tokens of the prompt are to be read."""
        params = request.kv_transfer_params or {}
        return max(0, request.num_prompt_tokens - local_tokens) if params.get("do_remote_prefill") else 0

    def allocated(self, request: Request, external_tokens: int) -> None:
        """Starts the read, which is never tried again."""
        params = request.kv_transfer_params or {}
        if not params.get("do_remote_prefill"):
            return
        params["do_remote_prefill"] = False
        local_tokens = request.num_prompt_tokens - external_tokens
        first = local_tokens // self._block_size
        last = -(-request.num_prompt_tokens // self._block_size) if external_tokens else first
        transfer = Transfer(
            request.request_id,
            params,
            params["remote_block_ids"][0][first:last],
            request.blocks[first:last],
            external_tokens,
            done=params["remote_request_id"],
        )
        if external_tokens:
            self._reading[request.request_id] = request, local_tokens
        self._transfers.start(transfer)

    def read(self, request_id: str, *, failed: bool) -> None:
        """Notes that a read has ended."""
        if (reading := self._reading.pop(request_id, None)) is not None:
            request, local_tokens = reading
            self._arrived.append((request, local_tokens if failed else request.num_prompt_tokens))

    def step(self) -> Arrivals:
        """Frees what was read, or waited for too long; returns the reads that are over."""
        now = self._clock()
        for name in [*self._read, *(name for name, until in self._pinned.items() if now > until)]:
            if self._pinned.pop(name, None) is not None:
                self._retention.let_go(name)
        self._read.clear()
        arrived, self._arrived = self._arrived, []
        return arrived

    def finish(self, request: Request, *, aborted: bool) -> bool:
        """Keeps prefill's blocks for the next engine; False: a read still writes into them."""
        if request.request_id in self._reading:
            return False
        params = request.kv_transfer_params or {}
        if params.get("do_remote_decode") and not aborted:
            ids = request.block_ids[: -(-request.num_prompt_tokens // self._block_size)]
            self._retention.keep(request.request_id, [ids])
            self._pinned[request.request_id] = self._clock() + PIN
            request.returned_params = {
                **self._parameters,
                "do_remote_prefill": True,
                "do_remote_decode": False,
                "remote_block_ids": [ids],
                "remote_request_id": request.request_id,
            }
        return True

    def notified(self, request_id: str) -> None:
        """A reader has read that request's blocks."""
        self._read.append(request_id)
