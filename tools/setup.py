"""Sets a checkout up, from nothing but Python and pip: `python -m tools.setup [dev|proto|engines]...`, or all.

dev: kvlease with what tests and linters need, in .venv. proto: the pinned generator of the stubs, in .venv-proto.
engines: vLLM for CPU in .engines, one folder per version, and what they need in .venv (about 6 GB together).
What is done is not done again; what failed says why. pip's words are in .cache/setup.log.
"""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - who runs this has not installed anything yet
    sys.exit(
        "setup: Python 3.11 or newer is needed, and this is {}.{}: PYTHON=python3.11 make setup".format(
            *sys.version_info[:2]
        )
    )

import argparse

from tools.checkout import SetupError
from tools.engines import engines
from tools.environments import dev, proto

STEPS = {"dev": dev, "proto": proto, "engines": engines}


def main() -> int:
    parser = argparse.ArgumentParser(description="Sets a checkout of kvlease up.")
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"of {', '.join(STEPS)}; all by default")
    wanted = set(parser.parse_args().steps or STEPS)
    if unknown := wanted - set(STEPS):
        parser.error(f"unknown step: {', '.join(sorted(unknown))}")
    if "engines" in wanted:
        wanted.add("dev")  # whose environment they share
    try:
        for name, step in STEPS.items():
            if name in wanted:
                step()
    except SetupError as error:
        print(f"setup: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
