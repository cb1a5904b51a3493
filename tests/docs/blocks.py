"""The code blocks of a page."""

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^( *)```([\w-]*)[^\n]*\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One block, and where it begins."""

    page: Path
    line: int
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """All blocks of a Markdown file, in order."""
    source = page.read_text()
    return [
        Block(page, source.count("\n", 0, found.start()) + 1, found[2], found[3]) for found in _FENCE.finditer(source)
    ]
