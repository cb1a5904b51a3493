"""Requests of a stock proxy, which carry transfer parameters of their own: made safe before stock code sees them.

P-to-D works as in stock. D-to-P is computed instead of read, since nothing proves the tokens; and whatever would stop
the engine (U15) or read blocks twice (U5, U16) is taken out.
"""

from collections import OrderedDict
from typing import Any

_NEEDED = {"remote_engine_id": str, "remote_request_id": str, "remote_host": str, "remote_port": int, "tp_size": int}
_SIZES = ("tp_size", "dcp_size", "pp_size")
_REMEMBERED = 4096


class StockParameters:
    """Judges transfer parameters; remembers which handles have been read."""

    def __init__(self, groups: int, block_size: int) -> None:
        """Takes the number of KV-cache groups and the tokens per block of this engine."""
        self._groups, self._block_size = groups, block_size
        self._read: OrderedDict[tuple[str, str], None] = OrderedDict()

    def tame(self, params: dict[str, Any], tokens: int) -> str:
        """Changes *params* in place so that stock code can take them; returns why it had to, or nothing.

        *tokens*: how many of the prompt decode reads from prefill.
        """
        params.pop("remote_blocks_expiry_time", None)  # of decode's blocks; workers calculate with it
        if params.get("do_remote_decode"):
            params["do_remote_prefill"] = False
            why = "decode's KV is read only under a lease: computed instead"
            return why if params.pop("remote_block_ids", None) else ""
        if not params.get("do_remote_prefill"):
            return ""
        if why := self._refusal(params, tokens):
            params["do_remote_prefill"] = False
        return why

    def _refusal(self, params: dict[str, Any], tokens: int) -> str:
        if missing := [name for name, kind in _NEEDED.items() if not isinstance(params.get(name), kind)]:
            return f"no {', '.join(missing)}: computed instead"
        if not all(_is_size(params.get(name, 1)) for name in _SIZES):
            return "sizes that are none: computed instead"
        if not self._fits(params.get("remote_block_ids"), tokens):
            return "remote_block_ids do not fit this engine and prompt: computed instead"
        key = (params["remote_engine_id"], params["remote_request_id"])
        if key in self._read:
            return "its blocks were read once and may be gone: computed instead"
        self._read[key] = None
        if len(self._read) > _REMEMBERED:
            self._read.popitem(last=False)
        return ""

    def _fits(self, groups: Any, tokens: int) -> bool:
        if not isinstance(groups, (list, tuple)) or len(groups) != self._groups:
            return False
        if not all(isinstance(ids, (list, tuple)) and ids and all(map(_is_block_id, ids)) for ids in groups):
            return False
        return self._groups > 1 or len(groups[0]) >= -(-tokens // self._block_size)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def _is_block_id(value: Any) -> bool:
    return isinstance(value, int) and value >= 0
