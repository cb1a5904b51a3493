"""What a check found."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is. FAIL: something does not work, or kvlease does nothing."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about one subject: what is so, and what to do about it unless it is OK."""

    level: Level
    subject: str
    what: str
    advice: str = ""


def ok(subject: str, what: str) -> Finding:
    return Finding(Level.OK, subject, what)


def warn(subject: str, what: str, advice: str) -> Finding:
    return Finding(Level.WARN, subject, what, advice)


def fail(subject: str, what: str, advice: str) -> Finding:
    return Finding(Level.FAIL, subject, what, advice)
