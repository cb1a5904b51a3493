"""What a server grants to a client before it gives up on it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes in bytes, times in seconds."""

    head_bytes: int = 64 * 1024
    """Longest request line and headers together; more is a 431."""
    body_bytes: int = 64 * 1024 * 1024
    """Longest body; more is a 413."""
    connections: int = 10_000
    """Most connections at a time; one more is told 503."""
    idle: float = 75.0
    """A connection without a request is closed after this."""
    read: float = 20.0
    """The head must come within this; of the body something must."""
    stall: float = 60.0
    """A client that takes nothing of its answer for so long is cut off."""
    linger: float = 2.0
    """How long a refused client may go on sending before the connection is closed, so that it can read the refusal."""

    def __post_init__(self) -> None:
        """Refuses what is not positive."""
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be positive")
