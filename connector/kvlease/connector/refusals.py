"""What is refused as the engine starts, in words: otherwise vLLM would hang, crash or answer with errors later."""

import traceback
from collections.abc import Callable
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.multi_connector import MultiConnector

from kvlease.connector.settings import SettingsError


def check_buffer(transfer: Any) -> None:
    """Raises SettingsError where vLLM would never end a read, because it skips those into memory of the host."""
    from vllm.platforms import current_platform  # noqa: PLC0415 - decides the device when imported

    if transfer.kv_buffer_device == "cpu" and current_platform.device_type != "cpu":
        raise SettingsError(
            'kv_buffer_device "cpu" on an engine with another device is not supported: its reads never end. Remove it'
        )


def check_alone() -> None:
    """Raises SettingsError where a MultiConnector is making the connector.

    How failed reads are handled is read from MultiConnector's own configuration, which its parts do not see, and stats
    are given to vLLM's class of the connector's name, which cannot take ours.
    """
    if any(frame.f_code is MultiConnector.__init__.__code__ for frame, _ in traceback.walk_stack(None)):
        raise SettingsError(
            "kvlease cannot be one of MultiConnector's connectors: a failed read would fail its request. Make it the "
            'only one, with "kv_connector": "NixlConnector" and "kv_connector_module_path": "kvlease.connector.nixl"'
        )


def with_backends(transfer: Any, make: Callable[[], Any]) -> Any:
    """Returns the worker that *make* makes; raises SettingsError where NIXL lacks a back end that is asked for."""
    asked = transfer.get_from_extra_config("backends", ["UCX"])
    advice = (
        "see its message above: the libraries of a back end must be here, such as libfabric and hwloc for LIBFABRIC"
    )
    try:
        worker = make()
    except Exception as error:
        if not type(error).__name__.startswith("nixl"):  # they have no common class
            raise
        raise SettingsError(f"NIXL does not start with backends {asked} ({error!r}), {advice}") from error
    if missing := set(asked) - worker.nixl_wrapper.backends.keys():
        raise SettingsError(f"NIXL has no backends {sorted(missing)}, {advice}")
    return worker
