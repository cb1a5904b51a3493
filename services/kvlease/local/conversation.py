"""The conversation of the demo: what the user says, turn by turn, and how it grows."""

from collections.abc import Iterator

_TURNS = 6
_LINES = 12  # of each question
_TOPICS = ("the harbour", "the market", "the old mill", "the school", "the railway", "the river")


def questions() -> Iterator[str]:
    """Some notes each turn, about 0.7 k tokens of the tiny model, and a question about them."""
    for turn in range(_TURNS):
        topic = _TOPICS[turn % len(_TOPICS)]
        notes = "\n".join(
            f"{line:2}. On day {turn + 1} somebody noted a thing about {topic}." for line in range(_LINES)
        )
        yield f"Here are the notes of day {turn + 1}.\n{notes}\nWhat do they say of {topic}, and of the days before?"
