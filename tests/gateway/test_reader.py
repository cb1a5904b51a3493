"""Requests are read whole, from whatever pieces they come in, or refused."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlease.gateway.http.limits import Limits
from kvlease.gateway.http.reader import Incoming, Refused, RequestReader

POST = b"POST /v1/x?y=1 HTTP/1.1\r\nHost: h\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = (
    b"POST /v1/x HTTP/1.1\r\nHost: h\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
)
UPGRADE = (
    b"POST /v1/x HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAE\r\nX-A: b\r\nContent-Length: 5\r\n\r\nhello"
)


def reader(**limits: int) -> RequestReader:
    return RequestReader(Limits(**limits), on_expect=lambda: None)


def whole(data: bytes) -> Incoming:
    incoming = reader().feed(data)
    assert incoming is not None
    return incoming


def status_of(data: bytes, **limits: int) -> int:
    with pytest.raises(Refused) as refused:
        reader(**limits).feed(data)
    return refused.value.status


@given(st.sampled_from([POST, CHUNKED, UPGRADE]), st.lists(st.integers(0, len(UPGRADE)), max_size=8))
def test_pieces_make_no_difference(data: bytes, cuts: list[int]) -> None:
    made = reader()
    bounds = zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True)
    read = [incoming for start, end in bounds if (incoming := made.feed(data[start:end]))]

    request = read[0].request
    assert (request.method, request.path, request.body) == ("POST", "/v1/x", b"hello")
    assert request.header(b"x-a") == b"b"


@given(st.binary(max_size=300), st.sampled_from([b"", POST[:40], CHUNKED[:-20], UPGRADE[:60]]), st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(before: bytes, middle: bytes, after: bytes) -> None:
    made = reader(head_bytes=200, body_bytes=200)
    with suppress(Refused):
        for data in (before, middle, after):
            made.feed(data)


def test_an_upgrade_is_declined_and_the_request_served() -> None:
    """Java's HTTP client asks for HTTP/2 with every request."""
    assert whole(UPGRADE).request.body == b"hello"
    assert whole(UPGRADE.replace(b"POST", b"GET").replace(b"Content-Length: 5\r\n\r\nhello", b"\r\n")).keep_alive


@pytest.mark.parametrize(
    "data",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"hello\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nA b: c\r\n\r\n",
    ],
)
def test_what_is_no_request_is_refused(data: bytes) -> None:
    assert status_of(data) == 400


def test_another_version_is_refused() -> None:
    assert status_of(b"GET /\r\n\r\n") == 505


def test_a_tunnel_is_refused() -> None:
    assert status_of(b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n") == 405


@pytest.mark.parametrize("ended", [b"\r\n\r\n", b""])
def test_a_head_has_a_limit_also_before_it_ends(ended: bytes) -> None:
    assert status_of(b"GET / HTTP/1.1\r\nX: " + b"a" * 2000 + ended, head_bytes=1000) == 431


@pytest.mark.parametrize("data", [POST, CHUNKED])
def test_a_body_has_a_limit(data: bytes) -> None:
    assert status_of(data, body_bytes=4) == 413
    assert reader(body_bytes=5).feed(data)


def test_leave_to_send_a_body_is_given_only_for_one_within_the_limit() -> None:
    asked: list[bool] = []
    data = b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n"

    RequestReader(Limits(body_bytes=9), on_expect=lambda: asked.append(True)).feed(data)
    with pytest.raises(Refused):
        RequestReader(Limits(body_bytes=8), on_expect=lambda: asked.append(False)).feed(data)

    assert asked == [True]


def test_what_comes_behind_a_request_is_not_read() -> None:
    made = reader()

    incoming = made.feed(POST + POST.replace(b"hello", b"olleh"))

    assert incoming is not None
    assert incoming.request.body == b"hello"
    assert made.surplus
