"""The four commands that `pip install` makes. They say which extra brings what is missing, where a traceback would not.

Nothing but the standard library is imported here, for the rest may not be there; nor has gRPC begun to log.
"""

import os
import sys
from importlib import import_module


def kvlease() -> int:
    """Runs `kvlease`."""
    return _run("kvlease.cli.__main__", "cli")


def registry() -> int:
    """Runs `kvlease-registry`."""
    return _run("kvlease.registry.__main__", "services")


def router() -> int:
    """Runs `kvlease-router`."""
    return _run("kvlease.router.__main__", "services")


def gateway() -> int:
    """Runs `kvlease-gateway`."""
    return _run("kvlease.gateway.__main__", "gateway")


def _run(module: str, extra: str) -> int:
    """Runs a module's `main`; gives 2 where a package is missing that is not ours, 130 after Ctrl-C."""
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # each failure comes as an error, which says more
    try:
        main = import_module(module).main
    except ModuleNotFoundError as error:
        missing = (error.name or "kvlease").partition(".")[0]
        if missing == "kvlease":
            raise
        program = os.path.basename(sys.argv[0])  # noqa: PTH119 - a name, not a path
        print(f"{program}: {missing} is not installed: pip install 'kvlease[{extra}]'", file=sys.stderr)  # noqa: T201
        return 2
    except KeyboardInterrupt:
        return 130
    return int(main())
