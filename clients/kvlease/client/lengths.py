"""Lengths of time as people write them: "50ms", "12s", "8m", "1h". Every command line and setting takes these."""

import re

UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(us|ms|s|m|h)")


def seconds(text: str) -> float:
    """Reads "12s", "500ms", "8m" or "1h". Raises ValueError for anything else."""
    match = _LENGTH.fullmatch(text)
    if match is None:
        raise ValueError(f'{text!r} is no length of time; write "12s", "500ms", "8m" or "1h"')
    return float(match[1]) * UNITS[match[2]]


def written(length: float) -> str:
    """Writes a length in seconds so that `seconds` reads it."""
    if length >= 1 or length == 0:
        return f"{length:g}s"
    return f"{length * 1e3:g}ms" if length >= UNITS["ms"] else f"{length * 1e6:g}us"
