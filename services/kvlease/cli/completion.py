"""`kvlease completion`: what a shell needs to complete command lines."""

import argparse

from kvlease.cli.command import OK, Subparsers
from kvlease.cli.command import add_parser as add


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        source <(kvlease completion bash)
        kvlease completion zsh > "${fpath[1]}/_kvlease"
    """
    parser = add(subparsers, "completion", "print the completion of a shell", run, examples=examples)
    parser.add_argument("shell", choices=["bash", "zsh", "tcsh"])


def run(args: argparse.Namespace) -> int:
    """Prints the script."""
    import shtab  # noqa: PLC0415 - no other command needs it

    from kvlease.cli.__main__ import parser  # noqa: PLC0415 - which lists this module too

    print(shtab.complete(parser(), args.shell))
    return OK
