"""How much of a step is the connector's own: the time in its hooks less the time in the stock code that they call."""

import time
from collections.abc import Callable
from typing import Any, Self

from vllm.distributed.kv_transfer.kv_connector.v1.nixl.base_scheduler import NixlBaseConnectorScheduler
from vllm.distributed.kv_transfer.kv_connector.v1.nixl.pull_scheduler import NixlPullConnectorScheduler

from kvlease.connector.scheduler import LeasingScheduler

HOOKS = (
    "get_num_new_matched_tokens",
    "update_state_after_alloc",
    "build_connector_meta",
    "has_pending_push_work",
    "update_connector_output",
    "take_answers",
)


class Own:
    """Counts while it is entered. Counting costs time itself: not to be done while steps are timed."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._kept: list[tuple[type, str, Any]] = []

    def __enter__(self) -> Self:
        for kind, sign in (
            (LeasingScheduler, 1.0),
            (NixlPullConnectorScheduler, -1.0),
            (NixlBaseConnectorScheduler, -1.0),
        ):
            for name in HOOKS:
                if name in vars(kind):
                    self._kept.append((kind, name, vars(kind)[name]))
                    setattr(kind, name, self._counted(vars(kind)[name], sign))
        return self

    def __exit__(self, *_: object) -> None:
        for kind, name, hook in self._kept:
            setattr(kind, name, hook)

    def of(self, step: Callable[[], object]) -> float:
        """Returns the connector's own seconds of a step."""
        self._seconds = 0.0
        step()
        return self._seconds

    def _counted(self, hook: Callable[..., Any], sign: float) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            begun = time.perf_counter()
            try:
                return hook(*args)
            finally:
                self._seconds += sign * (time.perf_counter() - begun)

        return counted
