"""Command lines as manifests write them, read by those who will read them."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from kvlease.cli.__main__ import parser as cli
from kvlease.gateway import __main__ as gateway
from kvlease.registry import __main__ as registry
from kvlease.router import __main__ as router

COMMANDS: Mapping[str, Callable[[], Any]] = MappingProxyType(
    {
        "kvlease": cli,
        "kvlease-registry": registry._parser,
        "kvlease-router": router._parser,
        "kvlease-gateway": gateway._parser,
    }
)


def parse(command: Sequence[str]) -> Any:
    """The arguments that a command gives. Exits, as the program would, when it does not take them."""
    if list(command[:2]) == ["sh", "-c"]:
        return parse(shlex.split(command[2].replace("$$", "$").removeprefix("exec ")))
    return COMMANDS[command[0]]().parse_args(command[1:])
