"""Which trace a call carries, and what is not taken for one."""

import pytest

from kvlease.client import trace

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_a_trace_is_picked_out_of_other_headers() -> None:
    given = [("x-request-id", "r"), ("traceparent", PARENT), ("tracestate", "a=1")]

    headers = trace.read(given)

    assert headers == (("traceparent", PARENT), ("tracestate", "a=1"))
    assert trace.trace_id(headers) == "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "x",
        PARENT.upper(),
        PARENT + "-more",
        PARENT + "\n",
        "ff" + PARENT[2:],
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
        b"\xff\xfe",
    ],
)
def test_what_is_no_trace_is_not_carried_on(parent: str | bytes) -> None:
    assert trace.read([("traceparent", parent), ("tracestate", "a=1")]) == ()
    assert trace.trace_id(()) == ""


@pytest.mark.parametrize("state", ["", "é", "a=\n", "a" * 513])
def test_a_state_that_metadata_cannot_hold_is_left_out(state: str) -> None:
    assert trace.read([("traceparent", PARENT), ("tracestate", state)]) == (("traceparent", PARENT),)


def test_a_trace_is_carried_inside_only() -> None:
    headers = trace.read([("traceparent", PARENT)])

    with trace.carrying(headers):
        assert trace.current() == headers
        with trace.carrying(()):
            assert trace.current() == ()
        assert trace.current() == headers
    assert trace.current() == ()
