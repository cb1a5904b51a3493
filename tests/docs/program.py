"""Runs a block of Python as a program of its own, which may await: `python -m tests.docs.program FILE`."""

import ast
import asyncio
import inspect
import sys
from pathlib import Path

if __name__ == "__main__":
    file = Path(sys.argv[1])
    code = compile(file.read_text(), str(file), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & inspect.CO_COROUTINE:
        asyncio.run(eval(code, {}))  # noqa: S307 - our own pages
    else:
        exec(code, {"__name__": "page"})  # noqa: S102 - likewise
