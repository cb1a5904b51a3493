"""The prefix proof: what two engines may take for the same tokens, and that it is never more than what is the same."""

from collections.abc import Sequence
from itertools import takewhile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlease.connector.prefix import SIZE, STRIDE, Chain, DigestKey, Item
from kvlease.v1.lease_pb2 import PrefixChain

KEY = DigestKey(b"secret")
SEED = KEY.seed({"tenant": "a"})

LENGTHS = st.one_of(
    st.integers(0, 5 * STRIDE),
    st.sampled_from([0, 1, STRIDE - 1, STRIDE, STRIDE + 1, 2 * STRIDE, 4 * STRIDE]),
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Two token lists with a common beginning: what an engine holds, and what is asked for next."""
    common = [draw(st.integers(0, 3))] * draw(LENGTHS)
    held = common + [draw(st.integers(4, 6))] * draw(LENGTHS)
    asked = common + [draw(st.integers(5, 7))] * draw(LENGTHS)
    return held, asked


def chain(tokens: Sequence[int], items: Sequence[Item] = (), seed: bytes = SEED, key: DigestKey = KEY) -> Chain:
    return Chain(key, seed, tokens, items)


def shared(held: Sequence[int], asked: Sequence[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(held, asked, strict=False)))


def proved(held: Chain, asked: Chain) -> int:
    return asked.proved(held.prefix(held.length), held.length)


@given(histories())
def test_proved_is_the_longest_common_prefix_in_whole_strides_or_the_whole_handle(
    pair: tuple[list[int], list[int]],
) -> None:
    held, asked = pair
    common = shared(held, asked)

    expected = len(held) if common == len(held) else common // STRIDE * STRIDE
    assert proved(chain(held), chain(asked)) == expected


@given(histories(), st.data())
def test_a_handle_of_fewer_tokens_than_the_engine_digested_proves_no_more_than_it_holds(
    pair: tuple[list[int], list[int]], data: st.DataObject
) -> None:
    held, asked = pair
    length = data.draw(st.integers(0, len(held)))

    count = chain(asked).proved(chain(held).prefix(length), length)

    assert count == proved(chain(held[:length]), chain(asked))
    assert count <= min(length, shared(held, asked))


@given(LENGTHS, st.data())
def test_one_token_that_differs_ends_the_proof_before_its_stride(length: int, data: st.DataObject) -> None:
    tokens = [7] * (length + 1)
    at = data.draw(st.integers(0, length))
    edited = [*tokens[:at], 8, *tokens[at + 1 :]]

    assert proved(chain(tokens), chain(edited)) == at // STRIDE * STRIDE


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"tenant": "a"}, {"tenant": "b"}),
        ({"lora": ""}, {"lora": "x:/x"}),
        ({"lora": "x:/1"}, {"lora": "x:/2"}),
        ({"cache_salt": ""}, {"cache_salt": "s"}),
        ({"a": "bc"}, {"ab": "c"}),
    ],
)
def test_whatever_else_decides_kv_must_be_equal(ours: dict[str, str], theirs: dict[str, str]) -> None:
    tokens = [1] * 300

    assert proved(chain(tokens, seed=KEY.seed(ours)), chain(tokens, seed=KEY.seed(theirs))) == 0


def test_a_chain_of_another_key_proves_nothing() -> None:
    other = DigestKey(b"another")
    tokens = [1] * 300

    assert proved(chain(tokens, key=other, seed=other.seed({})), chain(tokens, seed=KEY.seed({}))) == 0


def test_a_chain_that_claims_our_key_id_without_the_key_proves_nothing() -> None:
    forged = chain([1] * 300, key=DigestKey(b"another")).prefix(300)
    forged.key_id = KEY.key_id

    assert chain([1] * 300).proved(forged, 300) == 0


@given(st.integers(0, 3 * STRIDE), st.sampled_from(["image", "other"]), st.integers(0, 3 * STRIDE))
def test_another_item_behind_the_same_tokens_ends_the_proof_where_it_begins(
    offset: int, identity: str, theirs: int
) -> None:
    tokens = [1] * (3 * STRIDE + 5)

    count = proved(chain(tokens, [Item(theirs, "image")]), chain(tokens, [Item(offset, identity)]))

    same = (theirs, "image") == (offset, identity)
    assert count == (len(tokens) if same else min(offset, theirs) // STRIDE * STRIDE)


def test_the_order_in_which_items_are_given_does_not_matter() -> None:
    items = [Item(200, "b"), Item(3, "a")]
    tokens = [1] * 400

    assert proved(chain(tokens, items), chain(tokens, items[::-1])) == 400


@pytest.mark.parametrize("change", ["stride", "short", "long", "count"])
def test_a_chain_that_does_not_fit_its_token_count_proves_nothing(change: str) -> None:
    held = chain([1] * 300).prefix(300)
    count = 300
    match change:
        case "stride":
            held.stride = 64
        case "short":
            held.digests = held.digests[:-1]
        case "long":
            held.digests += bytes(SIZE)
        case "count":
            count = 200

    assert chain([1] * 300).proved(held, count) == 0


def test_an_empty_chain_proves_nothing() -> None:
    assert chain([1] * 300).proved(PrefixChain(key_id=KEY.key_id, stride=STRIDE), 0) == 0


@given(LENGTHS, st.integers(2, 16))
def test_boundaries_are_few_ascending_and_end_with_the_longest(length: int, most: int) -> None:
    made = chain([1] * length)

    strides, digests = made.boundaries(most)

    whole = length // STRIDE
    assert len(strides) == min(most, whole)
    assert strides == sorted(set(strides))
    assert strides[-1:] == ([whole] if whole else [])
    assert len(digests) == SIZE * len(strides)


@given(LENGTHS, st.integers(2, 16))
def test_a_boundarys_digest_is_that_of_a_handle_which_ends_there(length: int, most: int) -> None:
    made = chain([1] * length)

    strides, digests = made.boundaries(most)

    for i, stride in enumerate(strides):
        assert digests[SIZE * i : SIZE * (i + 1)] == made.prefix(stride * STRIDE).digests[-SIZE:]


def test_boundaries_are_dense_where_the_next_turn_most_likely_branches() -> None:
    strides, _ = chain([1] * (40 * STRIDE)).boundaries(8)

    assert strides[-4:] == [37, 38, 39, 40]
    assert strides[0] <= 10


@pytest.mark.parametrize("secret", [b"", b"x" * 65])
def test_a_secret_that_cannot_be_a_key_is_refused(secret: bytes) -> None:
    with pytest.raises(ValueError, match="1 to 64 bytes"):
        DigestKey(secret)


def test_a_key_does_not_show_its_secret() -> None:
    assert "secret" not in repr(KEY)
    assert KEY.key_id != DigestKey(b"other").key_id
