"""Requests that wait for the control plane's answer, asleep in vLLM's queue.

A request for which the connector answers "not yet" is asked for again in each step, and vLLM looks its whole prefix up
each time: 1,500 blocks for 24 k tokens. One whose grammar is still being compiled is only passed over; so that is what
vLLM is told of those that wait here.
"""

import math
from typing import Any

from vllm.v1.request import RequestStatus

ASLEEP, AWAKE = RequestStatus.WAITING_FOR_STRUCTURED_OUTPUT_GRAMMAR, RequestStatus.WAITING


class Sleepers:
    """Those that sleep. Used in the scheduling loop only.

    Attributes:
        requests: With their deadlines, by name.
        until: None wakes by itself before that instant.
    """

    def __init__(self) -> None:
        self.requests: dict[str, tuple[Any, float]] = {}
        self.until = math.inf

    def lay(self, request: Any, deadline: float) -> None:
        """Lets a waiting request sleep until it is woken, or until that instant."""
        request.status = ASLEEP
        self.requests[request.request_id] = request, deadline
        self.until = min(self.until, deadline)

    def wake(self, request_id: str) -> None:
        """Lets vLLM ask for a request again, if it sleeps."""
        request, _ = self.requests.pop(request_id, (None, 0.0))
        if request is not None and request.status == ASLEEP:
            request.status = AWAKE

    def wake_late(self, now: float) -> None:
        """Wakes all that have slept long enough."""
        if now >= self.until:
            for request_id in [name for name, (_, deadline) in self.requests.items() if now >= deadline]:
                self.wake(request_id)
            self.until = min((deadline for _, deadline in self.requests.values()), default=math.inf)
