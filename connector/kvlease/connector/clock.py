"""Time, as all parts of the connector take it: seconds of one process's monotonic clock, never sent anywhere."""

from collections.abc import Callable

Clock = Callable[[], float]
