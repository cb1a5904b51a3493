"""What is asked of engines and gateways over HTTP."""

import json

import pytest

from kvlease.local import chat, page
from tests.local.pages import serving

METRICS = """# HELP reads_total Reads.
reads_total{engine="0",kind="a"} 2.0
reads_total{engine="0",kind="b"} 3.0
usage 0.25
"""
STREAM = """data: {"choices": [{"delta": {"role": "assistant"}}]}

data: {"choices": [{"delta": {"content": "He"}, "logprobs": {"content": [{"logprob": -0.5}, {"logprob": -1.0}]}}]}

data: {"choices": [{"delta": {"content": "y"}, "logprobs": {"content": [{"logprob": -2.0}]}}]}

data: {"choices": [], "usage": {"prompt_tokens": 30, "prompt_tokens_details": {"cached_tokens": 20}}}

data: [DONE]
"""


def test_counters_are_summed_over_their_labels() -> None:
    with serving(200, METRICS) as (url, _):
        assert page.counters(url) == {"reads_total": 5.0, "usage": 0.25}


@pytest.mark.parametrize(("status", "there"), [(200, True), (503, False)])
def test_only_success_counts_as_an_answer(status: int, there: bool) -> None:
    with serving(status, "") as (url, _):
        assert page.answers(url) is there


def test_where_nobody_listens_there_is_no_answer() -> None:
    assert not page.answers("http://127.0.0.1:1")


def test_an_error_says_what_the_server_said() -> None:
    with serving(503, "no engine yet") as (url, _), pytest.raises(OSError, match="answered 503: no engine yet"):
        page.post(url, {}, timeout=5)


def test_an_answer_in_pieces_is_put_together() -> None:
    with serving(200, STREAM) as (url, came):
        answer = chat.ask(url, [{"role": "user", "content": "?"}], conversation="c", tokens=range(2, 9))

    assert (answer.text, answer.logprobs) == ("Hey", (-0.5, -1.0, -2.0))
    assert (answer.prompt_tokens, answer.cached_tokens) == (30, 20)
    asked = json.loads(came[0])
    assert (asked["conversation_id"], asked["min_tokens"], asked["max_tokens"]) == ("c", 2, 9)


@pytest.mark.parametrize(
    ("stream", "told"),
    [
        (STREAM.partition('data: {"choices": []')[0], "broke off"),
        ('data: {"error": {"message": "no engine"}}\n', "no engine"),
    ],
)
def test_an_answer_that_is_not_whole_is_none(stream: str, told: str) -> None:
    with serving(200, stream) as (url, _), pytest.raises(OSError, match=told):
        chat.ask(url, [], conversation="c", tokens=range(2, 9))
