"""How like two answers are."""

import math

from benchmarks.multiturn.likeness import difference
from benchmarks.multiturn.requests import Answer


def answer(*told: tuple[int, float], alternatives: list[dict[str, float]] | None = None) -> Answer:
    tokens, logprobs = [token for token, _ in told], [logprob for _, logprob in told]
    own = [{f"token_id:{token}": logprob} for token, logprob in told]
    return Answer(tokens, logprobs, alternatives or own)


def test_the_same_tokens_are_compared_place_by_place() -> None:
    assert difference(answer((1, -1.0), (2, -2.0)), answer((1, -1.5), (2, -2.1))) == 0.5


def test_nothing_is_compared_after_answers_part() -> None:
    near = [{"token_id:1": -1.0, "token_id:2": -1.1}, {"token_id:9": -9.0}]
    far = [{"token_id:1": -1.05, "token_id:2": -1.0}, {"token_id:8": -1.0}]

    apart = difference(answer((1, -1.0), (9, -9.0), alternatives=near), answer((2, -1.0), (8, -1.0), alternatives=far))

    assert math.isclose(apart, 0.1)


def test_answers_that_part_for_no_near_tie_are_not_alike_at_all() -> None:
    assert difference(answer((1, -1.0)), answer((2, -1.0))) == math.inf
