"""The code blocks of a page."""

from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt


@dataclass(frozen=True, slots=True)
class Block:
    """One block, and where it begins. *language* is empty where none is named, as of an indented block."""

    page: Path
    line: int
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """All blocks of a Markdown file, fenced or indented, in order."""
    return [
        Block(page, token.map[0] + 1, token.info, token.content)
        for token in MarkdownIt().parse(page.read_text())
        if token.type in ("fence", "code_block") and token.map
    ]
