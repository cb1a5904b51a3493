"""vLLM's own server, on a machine with few cores: what spins there waits here.

vLLM and NIXL count on cores to spare. Two engines on two cores starve each other, and all else, for seconds:
NIXL's progress thread polls without a pause, and vLLM's processes call sched_yield in a loop while they wait for one
another. Both get a pause; nothing else differs. vLLM's subprocesses are spawned, so each imports this module first.
"""

import os
import runpy
import time
from typing import Any

from nixl import _bindings

_POLL_PAUSE = 1_000  # microseconds; a transfer's events end it at once
_SPIN_PAUSE = 0.0001  # seconds


class _PausingAgentConfig(_bindings.nixlAgentConfig):  # type: ignore[misc]  # NIXL is untyped
    """NIXL's Python API sets the pause to 0."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, _POLL_PAUSE if name == "pthrDelay" else value)


_bindings.nixlAgentConfig = _PausingAgentConfig
os.sched_yield = lambda: time.sleep(_SPIN_PAUSE)

if __name__ == "__main__":
    runpy.run_module("vllm.entrypoints.openai.api_server", run_name="__main__")
