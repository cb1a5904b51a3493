"""What a request may be made to wait for the control plane, in all."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Budget:
    """Seconds that are spent only while something is waited for."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self.left = seconds
        self._clock = clock

    @contextmanager
    def spend(self) -> Iterator[float]:
        """Gives what is left, and takes off what the body of the `with` takes."""
        begun = self._clock()
        try:
            yield self.left
        finally:
            self.left = max(0.0, self.left - (self._clock() - begun))
