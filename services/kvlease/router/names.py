"""Names that nobody else gives."""

import secrets
from collections.abc import Callable

BYTES = 16
DRAWN = 256  # names at a time: asking the system for randomness costs more than anything else in making a ticket


class Names:
    """Random names of 32 hexadecimal digits."""

    def __init__(self, source: Callable[[int], bytes] = secrets.token_bytes) -> None:
        self._source = source
        self._drawn: list[str] = []

    def take(self) -> str:
        """Returns a new one."""
        if not self._drawn:
            digits = self._source(BYTES * DRAWN).hex()
            self._drawn = [digits[start : start + 2 * BYTES] for start in range(0, len(digits), 2 * BYTES)]
        return self._drawn.pop()
