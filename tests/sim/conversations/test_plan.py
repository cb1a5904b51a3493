"""A plan says what is done, the same every time."""

from kvlease.sim import tokens
from kvlease.sim.conversations.history import History
from kvlease.sim.conversations.plan import Plan, turns_of


def test_the_same_plan_gives_the_same_turns() -> None:
    plan = Plan(aborts=0.5, tools=0.5)

    assert list(turns_of(plan, 3)) == list(turns_of(plan, 3))
    assert list(turns_of(plan, 3)) != list(turns_of(plan, 4))


def test_turns_keep_to_the_plan() -> None:
    plan = Plan(turns=8, words=(3, 5), answer=(1, 2), aborts=1.0)

    for conversation in range(50):
        turns = list(turns_of(plan, conversation))
        assert 4 <= len(turns) <= 8
        for turn in turns:
            assert 3 <= turn.words <= 5
            assert 1 <= turn.answer <= 2
            assert turn.abort_after is not None


def test_clients_leave_only_if_they_are_to() -> None:
    assert all(turn.abort_after is None for n in range(20) for turn in turns_of(Plan(), n))


def test_only_an_answer_makes_a_history_longer() -> None:
    history = History("c", system=8)
    asked = history.asking(5)
    assert len(history.messages) == 1

    history.answered(asked, "yes ", called=False)

    assert [message["role"] for message in history.messages] == ["system", "user", "assistant"]


def test_a_tool_that_was_called_is_heard_next() -> None:
    history = History("c", system=0)
    history.answered(history.asking(5), "look", called=True)

    asked = history.asking(5)

    assert [message["role"] for message in asked] == ["user", "assistant", "tool"]
    assert tokens.of_chat(asked)
