"""Usage is corrected and nothing else is touched."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlease.gateway.usage import correct

DETAIL = {"cached_tokens": st.none() | st.integers(0, 9), "audio_tokens": st.integers(0, 9)}
DETAILS: st.SearchStrategy[dict[str, Any] | None] = st.one_of(st.none(), st.fixed_dictionaries({}, optional=DETAIL))


@st.composite
def usages(draw: st.DrawFn) -> dict[str, Any]:
    return {"prompt_tokens": draw(st.integers(0, 99)), "prompt_tokens_details": draw(DETAILS)}


@given(usages(), st.text(), st.booleans(), st.integers(0, 2**40))
def test_only_cached_tokens_change(usage: dict[str, Any], text: str, spaced: bool, cached: int) -> None:
    value: dict[str, Any] = {"choices": [{"text": text}], "usage": usage, "metrics": {"usage": 1}}
    before = json.dumps(value, separators=(", ", ": ") if spaced else (",", ":"), ensure_ascii=spaced).encode()

    after = correct(before, cached)

    value["usage"] = usage | {
        "prompt_tokens_details": (usage["prompt_tokens_details"] or {}) | {"cached_tokens": cached}
    }
    assert json.loads(after) == value
    start = before.index(b'"usage"')
    assert after.startswith(before[:start])
    assert after.endswith(before[before.index(b'"metrics"') - 1 :])


@pytest.mark.parametrize(
    "answer", [b"", b"no json", b"[1]", b"{}", b'{"usage":null}', b'{"usage":{}}', b'{"usage":7}', b'{"choices":[]}']
)
def test_what_has_no_usage_stays_as_it_is(answer: bytes) -> None:
    assert correct(answer, 5) == answer
