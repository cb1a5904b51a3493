"""A clock that moves only when told to."""


class FakeClock:
    """Seconds since some epoch, as `time.monotonic` gives them."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
