"""Base URLs of engines."""

import pytest

from kvlease.gateway.http.origin import origin


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://10.0.0.7:8000", ("10.0.0.7", 8000, False, b"10.0.0.7:8000", b"")),
        ("http://engine", ("engine", 80, False, b"engine", b"")),
        ("https://engine/a/b/", ("engine", 443, True, b"engine", b"/a/b")),
        ("http://[::1]:8000", ("::1", 8000, False, b"[::1]:8000", b"")),
    ],
)
def test_a_url_is_taken_apart(url: str, expected: tuple[object, ...]) -> None:
    taken = origin(url)

    assert (taken.host, taken.port, taken.tls, taken.authority, taken.prefix) == expected


@pytest.mark.parametrize("url", ["", "engine:8000", "ftp://engine", "http://", "http://a:99999"])
def test_what_is_no_base_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"no http|out of range"):
        origin(url)
