"""`python -m tests.protocol`: lives that nobody has lived yet, for as long as one likes, until one breaks a law."""

import argparse
import logging
import random
import sys
import time

import structlog

from kvlease.client import lengths
from tests.protocol.faults import CLIMATES
from tests.protocol.search import search

BATCH = 100
"""Lives of one seed."""


def main() -> int:
    """Gives the exit code: 1 if a law was broken; then the shortest such life and its seed are printed."""
    args = _parser().parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    until, lives = time.monotonic() + args.time, 0
    while not lives or (time.monotonic() < until and args.seed is None):
        seed = random.getrandbits(32) if args.seed is None else args.seed
        try:
            search(BATCH, climates=args.climate, seed=seed)
        except Exception as error:  # noqa: BLE001 - a broken law, or a part that fell over: both are found
            sys.excepthook(type(error), error, error.__traceback__)
            print(f"--seed {seed}", *(f"--climate '{climate}'" for climate in args.climate))  # noqa: T201
            return 1
        lives += BATCH
    print(f"{lives} lives, and every law held")  # noqa: T201
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.protocol", description=__doc__)
    parser.add_argument("--time", default="1m", type=lengths.seconds, help="for how long, such as 20m")
    parser.add_argument("--seed", type=int, help="live those lives again")
    parser.add_argument("--climate", action="append", default=[], choices=sorted(CLIMATES), help="only this one")
    return parser


if __name__ == "__main__":
    sys.exit(main())
