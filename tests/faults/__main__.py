"""Runs the fault matrix: `make faults`. Prints a line per case; exits 1 if one failed."""

import argparse
import json
import sys
from collections.abc import Sequence

import pytest

from tests.faults.cases import CASES
from tests.faults.matrix import Matrix, Outcome, Result, by_outcome

PLAIN = ("--strict-config", "--strict-markers", "--import-mode=importlib")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if no case failed, 1 if one did, 2 for a case that there is not."""
    given = parser().parse_args(arguments)
    matrix = Matrix(
        given.only or CASES,
        engines=not given.fast,
        tell=_as_json if given.json else _as_text,
        begin=_aside if not given.quiet else lambda _: None,
        explain=_aside,
    )
    # Without its terminal pytest prints nothing; what the project asks of it there must go as well.
    options = ["-p", "no:terminal", "-o", "addopts=", *PLAIN, "-m", "case", "tests"]
    code = pytest.main(options, plugins=[matrix])
    found = by_outcome(matrix.results.values())
    _aside("faults: " + ", ".join(f"{outcome} {len(found[outcome])}" for outcome in Outcome))
    good = code in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED} and not matrix.broken
    return int(not good or bool(found[Outcome.FAILED]))


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    made.add_argument("--only", type=_numbers, metavar="N[,N]", help="these cases")
    made.add_argument("--fast", action="store_true", help="simulated engines only, not vLLM: about a minute")
    made.add_argument("--json", action="store_true", help="an object per line")
    made.add_argument("--quiet", action="store_true", help="do not tell which test runs")
    return made


def _numbers(text: str) -> list[int]:
    try:
        wanted = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers") from error
    if unknown := [number for number in wanted if number not in CASES]:
        raise argparse.ArgumentTypeError(f"there is no case {unknown[0]}; there are 1 to {len(CASES)}")
    return wanted


def _as_text(result: Result) -> None:
    case = CASES[result.number]
    seen = _seen(result)
    print(f"{result.number:2} {result.outcome:7} {case.given} -> {case.expected} | {seen}", flush=True)  # noqa: T201


def _as_json(result: Result) -> None:
    case = CASES[result.number]
    told = {
        "case": result.number,
        "given": case.given,
        "expected": case.expected,
        "seen": result.failures or result.seen or result.skips,
        "outcome": result.outcome.value,
    }
    print(json.dumps(told), flush=True)  # noqa: T201


def _seen(result: Result) -> str:
    if result.failures:
        return "; ".join(result.failures)
    return "; ".join(dict.fromkeys(result.seen or result.skips))


def _aside(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
