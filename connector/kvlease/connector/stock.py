"""Requests of a stock proxy, which carry transfer parameters of their own: made safe before stock code sees them.

P-to-D works as in stock. D-to-P is computed instead of read, since nothing proves the tokens; and whatever would stop
the engine (U15) or read blocks twice (U5, U16) is taken out.
"""

from collections import OrderedDict
from typing import Any

_COMPLETE = ("remote_engine_id", "remote_request_id", "remote_host", "remote_port", "tp_size")
_REMEMBERED = 4096


class StockParameters:
    """Judges transfer parameters; remembers which handles have been read."""

    def __init__(self, groups: int, block_size: int) -> None:
        """Takes the number of KV-cache groups and the tokens per block of this engine."""
        self._groups, self._block_size = groups, block_size
        self._read: OrderedDict[tuple[str, str], None] = OrderedDict()

    def tame(self, params: dict[str, Any], prompt_tokens: int) -> str:
        """Changes *params* in place so that stock code can take them; returns why it had to, or nothing."""
        if params.get("do_remote_decode"):
            if params.pop("remote_block_ids", None):
                return "decode's KV is read only under a lease: computed instead"
            return ""
        if not params.get("do_remote_prefill"):
            return ""
        if why := self._refusal(params, prompt_tokens):
            params["do_remote_prefill"] = False
        return why

    def _refusal(self, params: dict[str, Any], prompt_tokens: int) -> str:
        if missing := [name for name in _COMPLETE if params.get(name) is None]:
            return f"no {', '.join(missing)}: computed instead"
        if not self._fits(params.get("remote_block_ids"), prompt_tokens):
            return "remote_block_ids do not fit this engine and prompt: computed instead"
        key = (str(params["remote_engine_id"]), str(params["remote_request_id"]))
        if key in self._read:
            return "its blocks were read once and may be gone: computed instead"
        self._read[key] = None
        if len(self._read) > _REMEMBERED:
            self._read.popitem(last=False)
        return ""

    def _fits(self, groups: Any, prompt_tokens: int) -> bool:
        if not isinstance(groups, (list, tuple)) or len(groups) != self._groups:
            return False
        if not all(isinstance(ids, (list, tuple)) and ids and all(map(_is_block_id, ids)) for ids in groups):
            return False
        return self._groups > 1 or len(groups[0]) >= -(-(prompt_tokens - 1) // self._block_size)


def _is_block_id(value: Any) -> bool:
    return isinstance(value, int) and value >= 0
