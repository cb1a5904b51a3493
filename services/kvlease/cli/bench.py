"""`kvlease bench`: measures kvlease against peers and limits. Benchmarks are in the checkout, not in the package."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from kvlease.cli.command import FAILED, Subparsers
from kvlease.cli.command import add_parser as add

_ROOT = Path(__file__).resolve().parents[3]


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease bench --list
        kvlease bench calls
        kvlease bench --results /tmp/results
    """
    parser = add(subparsers, "bench", "measure kvlease against peers and limits", run, examples=examples)
    parser.add_argument("names", nargs="*", metavar="NAME", help="which benchmarks; default: all")
    parser.add_argument("--list", action="store_true", help="say what there is")
    parser.add_argument("--smoke", action="store_true", help="as small as can be: figures without meaning")
    parser.add_argument("--results", type=Path, metavar="DIR", help="where files go; default: benchmarks/results")


def run(args: argparse.Namespace, *, root: Path = _ROOT) -> int:
    """Runs them in a process of their own; gives its exit code."""
    if not (root / "benchmarks" / "catalogue.py").is_file():
        print("kvlease bench: benchmarks are no part of the package: run it from a checkout", file=sys.stderr)
        return FAILED
    flags = [flag for flag, given in (("--list", args.list), ("--smoke", args.smoke)) if given]
    if args.results:
        flags += ["--results", str(args.results)]
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "benchmarks", *flags, *args.names]
    return subprocess.run(command, check=False, env={**os.environ, "PYTHONPATH": path}).returncode  # noqa: S603 - our own
