"""What applications pass: of the wrong kind, it is told at once and by name, before anything is sent."""

from numbers import Real


def text(name: str, value: str) -> str:
    """Gives *value* as it is. Raises TypeError unless it is text."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {value!r}")
    return value


def seconds(name: str, value: float) -> float:
    """Gives *value* as it is. Raises TypeError unless it is a number."""
    if not isinstance(value, Real):
        raise TypeError(f"{name} must be a number of seconds, not {value!r}")
    return value
