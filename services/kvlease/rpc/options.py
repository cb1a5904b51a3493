"""What the command lines of all services take alike."""

import argparse

from kvlease.client import lengths


def length(text: str) -> float:
    """Reads a length of time, for `type=`."""
    try:
        return lengths.seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
