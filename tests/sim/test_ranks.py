"""Data-parallel ranks behind one address: a turn goes to the ranks that its ticket names, and reuses what they keep."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from kvlease.sim.http import HttpRequest, HttpServer, Reply
from kvlease.sim.instance import Instance
from kvlease.sim.settings import Settings
from tests.sim.stack import running
from tests.sim.test_reuse import Talk, nothing_held, nothing_wrong, reuses
from tests.sim.test_reuse import end as end_conversation


class Front:
    """The server that engines of a role share: who is asked is in the header, as with vLLM's."""

    def __init__(self) -> None:
        self.ranks: Sequence[Instance] = ()
        self.asked: list[int] = []
        self.server = HttpServer(self._handle)
        self.url = f"http://127.0.0.1:{self.server.listen('127.0.0.1', 0)}"

    def before(self, engines: Sequence[Settings], role: str) -> list[Settings]:
        """Makes the engines of *role* ranks behind this server."""
        count = sum(engine.role == role for engine in engines)
        ranks = iter(range(count))
        return [replace(e, front=self.url, rank=next(ranks), ranks=count) if e.role == role else e for e in engines]

    def _handle(self, request: HttpRequest, reply: Reply) -> None:
        self.asked.append(int(request.headers[b"x-data-parallel-rank"]))
        self.ranks[self.asked[-1]].handle(request, reply)


@contextmanager
def front() -> Iterator[Front]:
    made = Front()
    yield made
    made.server.close()


async def test_conversations_come_back_to_the_ranks_that_keep_them() -> None:
    with front() as prefills, front() as decodes:

        def behind(engines: list[Settings]) -> list[Settings]:
            return decodes.before(prefills.before(engines, "prefill"), "decode")

        async with running(prefill=2, decode=2, arrange=behind) as stack:
            prefills.ranks, decodes.ranks = stack.of("prefill"), stack.of("decode")
            talks = [Talk(stack, f"c{number}") for number in range(6)]
            for talk in talks:
                await talk.say("Hello? Is anybody there?")
            for talk in talks:
                assert await reuses(talk)
            assert nothing_wrong(stack)
            assert set(prefills.asked) | set(decodes.asked) == {0, 1}

            for talk in talks:
                await end_conversation(stack, talk.name)
            await nothing_held(stack)
