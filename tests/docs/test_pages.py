"""Every code block of README and of all pages runs, or is checked, or is named here with the test that runs it."""

import shutil
from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.docs.place import Place
from tests.docs.reading import ROOT, read

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
READERS = Path(__file__).with_name("readers")
ELSEWHERE = {
    "docs/grpcurl.md": "tests/cookbook/test_grpcurl.py",  # with the answers that are printed below
    "docs/security.md": "tests/docs/test_security.py",  # with certificates, which are for localhost
}
"""Pages whose every block is run by a test of their own."""


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [x for x in PAGES if blocks(x) and named(x) not in ELSEWHERE], ids=named)
def test_every_block_runs(page: Path, tmp_path: Path) -> None:
    reader = READERS / f"{page.stem}.sh"
    before = reader.read_text() if reader.exists() else ""
    if "redis-server" in before and shutil.which("redis-server") is None:
        pytest.skip("NO REDIS IS TESTED: redis-server is not installed (apt-get install redis-server)")

    read(blocks(page), tmp_path, Place(), before=before)


@pytest.mark.parametrize("page", ELSEWHERE)
def test_pages_that_are_tested_elsewhere_are(page: str) -> None:
    assert blocks(ROOT / page)
    assert Path(page).name in (ROOT / ELSEWHERE[page]).read_text()


def test_every_reader_reads_a_page() -> None:
    assert {reader.stem for reader in READERS.iterdir()} <= {page.stem for page in PAGES}
