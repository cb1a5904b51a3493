"""Runs the subcommand that was asked for: `kvlease COMMAND`, or `python -m kvlease.cli COMMAND`."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import version

from kvlease.cli import (
    bench,
    certs,
    completion,
    doctor,
    end,
    engines,
    explain,
    keys,
    leases,
    release,
    sim_engine,
    tickets,
    top,
    up,
    watch,
)
from kvlease.cli.command import FAILED, OK, Command, Misused, advise
from kvlease.client.errors import KvleaseError

INTERRUPTED = 128 + signal.SIGINT

COMMANDS: tuple[Command, ...] = (
    up,
    engines,
    leases,
    tickets,
    watch,
    top,
    explain,
    doctor,
    end,
    release,
    sim_engine,
    bench,
    certs,
    keys,
    completion,
)


def parser() -> argparse.ArgumentParser:
    """Builds the command line."""
    top = argparse.ArgumentParser(
        prog="kvlease",
        description="Leased decode KV for vLLM prefill/decode disaggregation.",
        epilog="exit codes: 0 done, 1 failed, 2 wrong usage",
    )
    top.add_argument("--version", action="version", version=f"kvlease {version('kvlease')}")
    subparsers = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    return top


def _parsed(argv: Sequence[str]) -> argparse.Namespace:
    """Reads the command line; what nobody knows is told with the usage of the command that was given it."""
    args, unknown = parser().parse_known_args(argv)
    if unknown:
        before = "; options come after the command" if argv[0] in unknown else ""
        args.parser.error(f"unrecognized arguments: {' '.join(unknown)}{before}")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; gives its exit code."""
    args = _parsed(sys.argv[1:] if argv is None else argv)
    try:
        return int(args.run(args))
    except Misused as error:
        usage: argparse.ArgumentParser = args.parser
        usage.error(str(error))
    except KvleaseError as error:
        print(f"kvlease: {advise(error, args)}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK


if __name__ == "__main__":
    sys.exit(main())
