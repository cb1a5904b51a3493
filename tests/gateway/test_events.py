"""A stream of events passes unchanged, whatever pieces it comes in."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlease.gateway.events import EventStream, Stage, says_something, split
from tests.support.openai_engine import chunk, event, events

ROLE = event(True, 0, {"role": "assistant", "content": ""})
DONE = b"data: [DONE]\n\n"
# What a model may write to look like the end of a stream.
TEMPTING = st.sampled_from(
    ['"finish_reason":"stop"', "data: [DONE]", '\n\ndata: {"error": 1}\n\n', "[DONE]", "\r\n\r\n"]
)
WORDS = st.lists(st.one_of(TEMPTING, st.text()), min_size=1, max_size=12)


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[list[bytes], list[bytes], int]:
    """Gives the events of an answer, the same in pieces, and the number of choices."""
    choices = draw(st.integers(1, 3))
    body = {"n": choices, "stream_options": {"include_usage": draw(st.booleans())}}
    made = events(body, draw(WORDS), chat=draw(st.booleans()))
    if draw(st.booleans()):
        made = [each.replace(b"\n\n", b"\r\n\r\n") for each in made]
    made.insert(draw(st.integers(0, len(made))), b": keep-alive\n\n")
    whole = b"".join(made)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    bounds = zip([0, *cuts], [*cuts, len(whole)], strict=True)
    return made, [whole[start:end] for start, end in bounds], choices


@given(cut_streams())
def test_no_byte_is_changed_lost_or_moved(cut: tuple[list[bytes], list[bytes], int]) -> None:
    made, pieces, choices = cut
    stream = EventStream(choices)

    passed = b"".join(stream.feed(piece) for piece in pieces)

    assert passed + stream.rest() == b"".join(made)


@given(cut_streams())
def test_the_end_is_held_back_from_the_event_that_ends_the_last_choice(
    cut: tuple[list[bytes], list[bytes], int],
) -> None:
    made, pieces, choices = cut
    stream = EventStream(choices)

    passed = b"".join(stream.feed(piece) for piece in pieces)

    ending = [place for place, each in enumerate(made) if b'"finish_reason":"stop"' in each][choices - 1]
    assert stream.stage is Stage.ENDING
    assert passed == b"".join(made[:ending])
    assert stream.finish_reasons == {"stop"}


@given(cut_streams())
def test_an_event_passes_as_soon_as_it_is_whole(cut: tuple[list[bytes], list[bytes], int]) -> None:
    _, pieces, choices = cut
    stream = EventStream(choices)
    fed = passed = b""
    for piece in pieces:
        fed += piece
        passed += stream.feed(piece)
        if stream.stage is Stage.FLOWING:
            assert not list(split(fed.removeprefix(passed)))[1:]


@pytest.mark.parametrize("spaced", [False, True])
def test_the_end_is_found_in_spaced_json_too(spaced: bool) -> None:
    said = json.loads(event(True, 0, {"content": "x"}, "length")[6:])
    data = b"data: %b\n\n" % json.dumps(said, separators=(", ", ": ") if spaced else (",", ":")).encode()
    stream = EventStream(1)

    assert stream.feed(event(True, 0, {"content": "a"}))
    assert stream.feed(data) == b""
    assert stream.finish_reasons == {"length"}


def test_the_opening_is_held_until_something_is_said() -> None:
    stream = EventStream(1)

    assert stream.feed(ROLE) == b""
    assert stream.feed(said := event(True, 0, {"content": "x"})) == said or stream.stage is Stage.FLOWING


def test_the_opening_may_be_let_go() -> None:
    stream = EventStream(1)
    stream.feed(ROLE)

    assert stream.open() == ROLE
    assert stream.open() == b""


@pytest.mark.parametrize("said", [b'data: {"error":{"message":"x"}}\n\n', b'data: {"error": "x"}\n\n', DONE])
def test_a_stream_that_begins_with_its_end_has_failed(said: bytes) -> None:
    stream = EventStream(1)

    assert stream.feed(ROLE + said) == b""
    assert stream.stage is Stage.FAILED


def test_an_error_in_the_midst_is_noted() -> None:
    stream = EventStream(1)
    stream.feed(event(True, 0, {"content": "x"}))

    stream.feed(b'data: {"error": "x"}\n\n')

    assert stream.broken


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (ROLE, False),
        (b": keep-alive\n\n", False),
        (chunk({"choices": []}), False),
        (event(True, 0, {"content": "x"}), True),
        (event(True, 0, {"tool_calls": [{"index": 0}]}), True),
        (event(True, 0, {"reasoning": "hm"}), True),
        (event(True, 0, {"content": ""}, "stop"), True),
        (event(False, 0, {"text": "x"}), True),
        (event(False, 0, {"text": ""}), False),
        (b"data: not json\n\n", True),
        (b"data: [1]\n\n", True),
    ],
)
def test_what_counts_as_a_part_of_an_answer(data: bytes, says: bool) -> None:
    assert says_something(data) is says
