"""Whatever goes wrong, in whatever order: right KV or none, nothing hung, nothing leaked, and all of it heals."""

import pytest

from tests.protocol.search import search


@pytest.mark.timeout(1200)
def test_what_must_hold_holds_whatever_goes_wrong() -> None:
    search(100)
