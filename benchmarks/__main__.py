"""`python -m benchmarks [NAME ...]`, which is what `kvlease bench` runs. It fails if one breaks, never for a figure."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.catalogue import NAMES, Options, Unavailable, find
from benchmarks.report import RESULTS

OK, FAILED, WRONG = 0, 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Runs benchmarks; gives the exit code: 1 if one broke, whatever the figures are."""
    args = _parser().parse_args(argv)
    if args.list:
        for name in NAMES:
            print(f"{name:10} {find(name).SUMMARY}")
        return OK
    if wrong := [name for name in args.names if name not in NAMES]:
        print(f"no benchmark is called {', '.join(wrong)}: there are {', '.join(NAMES)}", file=sys.stderr)
        return WRONG
    options = Options(args.results, args.smoke)
    ends = [_run(name, options) for name in args.names or NAMES]
    print("\n".join(line for lines, _ in ends for line in lines))
    return FAILED if any(broke for _, broke in ends) else OK


def _run(name: str, options: Options) -> tuple[list[str], bool]:
    """Runs one; returns its last lines, and whether it broke."""
    print(f"\n## {name}: {find(name).SUMMARY}\n", flush=True)
    begun = time.monotonic()
    try:
        report = find(name).run(options)
    except Unavailable as error:
        return [f"bench {name}: short, not run: {error}"], False
    except Exception as error:  # noqa: BLE001 - the others are to run all the same
        sys.excepthook(type(error), error, error.__traceback__)
        return [f"bench {name}: broken: {type(error).__name__}: {str(error).partition(chr(10))[0]}"], True
    print(report.table())
    print(f"\n{report.write(options.results).name}, {time.monotonic() - begun:.0f} s", flush=True)
    return report.lines(), False


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kvlease bench", description="Measures kvlease against peers and limits.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="which ones; default: all")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--smoke", action="store_true", help="as small as can be: figures without meaning")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where files go")
    return parser


if __name__ == "__main__":
    sys.exit(main())
