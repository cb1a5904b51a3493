"""Many questions, few calls."""

import asyncio
from collections.abc import Sequence

import pytest

from kvlease.router.batch import ENOUGH, MANY, Batch

LATE = 60.0


class Oracle:
    """Answers when it is let."""

    def __init__(self) -> None:
        self.calls: list[Sequence[str]] = []
        self.let = asyncio.Event()
        self.error: Exception | None = None

    async def ask(self, keys: Sequence[str], _wait: float) -> Sequence[str]:
        self.calls.append(keys)
        await self.let.wait()
        if self.error:
            raise self.error
        return [key.upper() for key in keys]


async def asked(batch: Batch[str, str], *keys: str) -> list[asyncio.Task[str]]:
    tasks = [asyncio.create_task(batch.get(key, 1.0)) for key in keys]
    for _ in range(3):
        await asyncio.sleep(0)
    return tasks


async def test_a_question_alone_goes_at_once() -> None:
    oracle = Oracle()

    await asked(Batch(oracle.ask, most=10, at_a_time=1, late=LATE, gather=0.0), "a")

    assert oracle.calls == [["a"]]


async def test_what_is_asked_during_a_call_shares_the_next_one() -> None:
    oracle = Oracle()
    batch = Batch(oracle.ask, most=10, at_a_time=2, late=LATE, gather=0.0)
    first = await asked(batch, "a")
    others = await asked(batch, "b", "c")

    oracle.let.set()

    assert await asyncio.gather(*first, *others) == ["A", "B", "C"]
    assert oracle.calls == [["a"], ["b", "c"]]


async def test_no_call_is_larger_than_it_may_be() -> None:
    oracle = Oracle()
    oracle.let.set()

    tasks = await asked(Batch(oracle.ask, most=2, at_a_time=1, late=LATE, gather=0.0), "a", "b", "c", "d", "e")

    assert await asyncio.gather(*tasks) == ["A", "B", "C", "D", "E"]
    assert max(map(len, oracle.calls)) <= 2


async def test_a_failure_is_told_to_all_who_share_the_call_and_ends_there() -> None:
    oracle = Oracle()
    batch = Batch(oracle.ask, most=10, at_a_time=1, late=LATE, gather=0.0)
    tasks = await asked(batch, "a")
    oracle.error = ValueError("no")
    oracle.let.set()

    with pytest.raises(ValueError, match="no"):
        await tasks[0]
    oracle.error = None

    assert await batch.get("b", 1.0) == "B"


async def test_who_gave_up_is_not_asked_for() -> None:
    oracle = Oracle()
    batch = Batch(oracle.ask, most=10, at_a_time=1, late=LATE, gather=0.0)
    first = await asked(batch, "a")
    (gone,) = await asked(batch, "b")
    gone.cancel()
    await asyncio.sleep(0)

    oracle.let.set()

    assert await first[0] == "A"
    assert await batch.get("c", 1.0) == "C"
    assert oracle.calls == [["a"], ["c"]]


async def test_a_call_that_is_lost_keeps_nothing_that_comes_after_it() -> None:
    oracle = Oracle()
    batch = Batch(oracle.ask, most=10, at_a_time=2, late=0.0, gather=0.0)
    await asked(batch, "lost")

    await asked(batch, "b")

    assert oracle.calls == [["lost"], ["b"]]


async def test_what_waited_for_a_call_goes_when_that_is_late() -> None:
    oracle = Oracle()
    batch = Batch(oracle.ask, most=1, at_a_time=2, late=0.0, gather=0.0)

    await asked(batch, "lost", "b", "c")
    await asked(batch)

    assert oracle.calls == [["lost"], ["b"]]


async def test_who_has_waited_long_enough_gives_up() -> None:
    with pytest.raises(TimeoutError):
        await Batch(Oracle().ask, most=10, at_a_time=1, late=LATE, gather=0.0).get("a", 0.0)


async def test_what_is_asked_while_a_call_is_being_answered_is_answered_too() -> None:
    oracle = Oracle()
    batch = Batch(oracle.ask, most=10, at_a_time=1, late=LATE, gather=0.0)
    oracle.let.set()

    async def again() -> str:
        await batch.get("a", 1.0)
        return await batch.get("b", 1.0)

    assert await asyncio.gather(*(again() for _ in range(5))) == ["B"] * 5


async def after_many(oracle: Oracle, *, gather: float) -> Batch[str, str]:
    """A batch one of whose calls many have shared."""
    batch = Batch(oracle.ask, most=50, at_a_time=1, late=LATE, gather=gather)
    tasks = await asked(batch, "a", *map(str, range(MANY)))
    oracle.let.set()
    await asyncio.gather(*tasks)
    await asyncio.sleep(0)
    oracle.calls.clear()
    return batch


async def test_after_a_call_for_many_the_next_one_gathers() -> None:
    oracle = Oracle()
    batch = await after_many(oracle, gather=0.01)

    tasks = await asked(batch, "b") + await asked(batch, "c")

    assert oracle.calls == []
    assert await asyncio.gather(*tasks) == ["B", "C"]
    assert oracle.calls == [["b", "c"]]


async def test_after_a_call_for_few_nothing_is_held_back() -> None:
    oracle = Oracle()
    oracle.let.set()
    batch = Batch(oracle.ask, most=50, at_a_time=1, late=LATE, gather=LATE)
    await asyncio.gather(*await asked(batch, "a", "b"))

    assert await batch.get("c", 1.0) == "C"


async def test_enough_do_not_wait_for_more() -> None:
    oracle = Oracle()
    batch = Batch(oracle.ask, most=50, at_a_time=1, late=LATE, gather=LATE)
    tasks = await asked(batch, "a")
    tasks += await asked(batch, *(f"many {i}" for i in range(MANY)))
    oracle.let.set()
    await tasks[0]
    oracle.let.clear()
    await asyncio.sleep(0)
    enough = [f"enough {i}" for i in range(ENOUGH)]
    tasks += await asked(batch, *enough)

    oracle.let.set()
    await asyncio.gather(*tasks)

    assert oracle.calls[-1] == enough


async def test_an_answer_to_fewer_questions_than_were_asked_fails_these_and_no_later_ones() -> None:
    answers = [[], ["B"]]

    async def ask(_keys: Sequence[str], _wait: float) -> Sequence[str]:
        return answers.pop(0)

    batch = Batch(ask, most=10, at_a_time=1, late=LATE, gather=0.0)

    with pytest.raises(ValueError, match="zip"):
        await batch.get("a", 1.0)
    assert await batch.get("b", 1.0) == "B"
