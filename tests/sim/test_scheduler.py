"""The pretended engine schedules as vLLM does, in small."""

from array import array

import pytest

from kvlease.sim.pool import BlockPool
from kvlease.sim.request import Finish, Request, State
from kvlease.sim.scheduler import Limits, Scheduler
from kvlease.sim.sequence import Sequence

SIZE = 4


class Nothing:
    """A sink that forgets."""

    def begin(self, request: Request) -> None: ...

    def word(self, word: int) -> None: ...

    def end(self, request: Request, finish: Finish) -> None: ...


class Elsewhere:
    """A connector that offers what it was told to."""

    def __init__(self) -> None:
        self.offers: dict[str, int | None] = {}
        self.placed: list[tuple[str, int]] = []

    def offer(self, request: Request, local_tokens: int) -> int | None:
        assert local_tokens <= request.num_tokens
        return self.offers.get(request.request_id, 0)

    def allocated(self, request: Request, external_tokens: int) -> None:
        self.placed.append((request.request_id, external_tokens))


class World:
    """A scheduler with its pool."""

    def __init__(self, blocks: int = 20, **limits: int | bool) -> None:
        self.pool, self.connector = BlockPool(blocks + 1), Elsewhere()
        self.scheduler = Scheduler(self.pool, self.connector, Limits(block_size=SIZE, **limits))  # type: ignore[arg-type]

    def add(self, name: str, tokens: int, *, first: int = 0) -> Request:
        prompt = array("i", range(first, first + tokens))
        request = Request(name, Sequence(prompt, SIZE), tokens, max_tokens=100, natural=100, sink=Nothing())
        self.scheduler.add(request)
        return request

    def step(self) -> list[tuple[str, int]]:
        """Makes a step in which every request that may says a token; returns who computed how much."""
        batch = self.scheduler.schedule()
        for request in self.scheduler.computed(batch):
            request.sequence.tokens.append(1000 + request.num_output_tokens)
        return [(request.request_id, count) for request, count in batch]

    def finish(self, request: Request) -> None:
        self.scheduler.seal(request)
        self.scheduler.remove(request)
        self.pool.free_blocks(reversed(request.blocks))


def test_a_prompt_is_computed_and_then_a_token_a_step() -> None:
    world = World()
    world.add("a", 9)

    assert [world.step() for _ in range(3)] == [[("a", 9)], [("a", 1)], [("a", 1)]]


def test_a_long_prompt_takes_several_steps() -> None:
    world = World(tokens=8)
    world.add("a", 20)

    assert [world.step() for _ in range(4)] == [[("a", 8)], [("a", 8)], [("a", 4)], [("a", 1)]]


def test_decoding_goes_before_prompts_in_a_step() -> None:
    world = World(tokens=8)
    world.add("a", 4)
    world.step()
    world.add("b", 12)

    assert world.step() == [("a", 1), ("b", 7)]


def test_no_more_requests_run_than_may() -> None:
    world = World(requests=1)
    first, _ = world.add("a", 4), world.add("b", 4)

    assert world.step() == [("a", 4)]
    world.finish(first)
    assert world.step() == [("b", 4)]


def test_who_there_is_no_room_for_makes_those_behind_wait() -> None:
    world = World(blocks=4, prefix_caching=False)
    first = world.add("a", 9)
    world.add("b", 9)
    world.add("c", 1)

    assert world.step() == [("a", 9)]
    world.finish(first)
    assert world.step() == [("b", 9), ("c", 1)]


def test_the_youngest_is_preempted_for_a_block_and_starts_again() -> None:
    world = World(blocks=4, prefix_caching=False)
    world.add("a", 7)
    young = world.add("b", 7)
    world.step()
    world.step()

    assert world.step() == [("a", 1)]
    assert (young.state, young.blocks, young.computed) == (State.WAITING, [], 0)
    assert world.scheduler.preemptions == 1
    assert not young.wrong


def test_one_that_runs_alone_and_needs_more_than_there_is_preempts_itself() -> None:
    world = World(blocks=2)
    request = world.add("a", 8)

    assert world.step() == [("a", 8)]
    assert world.step() == []
    assert request.state is State.WAITING


def test_full_blocks_are_found_again_but_one_token_is_computed() -> None:
    world = World()
    first = world.add("a", 8)
    world.step()
    world.finish(first)
    again = world.add("b", 8)

    assert world.step() == [("b", 4)]
    assert (again.cached, again.wrong) == (4, False)


def test_nothing_is_found_again_without_the_prefix_cache() -> None:
    world = World(prefix_caching=False)
    first = world.add("a", 8)
    world.step()
    world.finish(first)
    world.add("b", 8)

    assert world.step() == [("b", 8)]


def test_one_with_another_salt_finds_nothing() -> None:
    world = World()
    first = world.add("a", 8)
    world.step()
    world.finish(first)
    world.add("b", 8).cache_salt = "salt"

    assert world.step() == [("b", 8)]


def test_one_that_the_connector_knows_nothing_of_yet_is_passed_over() -> None:
    world = World()
    world.connector.offers["a"] = None
    world.add("a", 8)
    world.add("b", 8, first=100)

    assert world.step() == [("b", 8)]
    world.connector.offers["a"] = 0
    assert world.step() == [("b", 1), ("a", 8)]


def test_one_that_is_read_elsewhere_waits_with_its_blocks() -> None:
    world = World()
    world.connector.offers["a"] = 8
    request = world.add("a", 10)

    assert world.step() == []
    assert (request.state, len(request.blocks), world.connector.placed) == (State.REMOTE, 3, [("a", 8)])


def test_what_was_read_is_not_computed() -> None:
    world = World()
    world.connector.offers["a"] = 8
    request = world.add("a", 10)
    world.step()
    for block, tag in zip(request.blocks, request.sequence.whole(2), strict=False):
        block.tag = tag

    world.scheduler.arrived(request, 8)

    assert world.step() == [("a", 2)]
    assert (request.cached, request.wrong) == (8, False)


def test_a_prompt_that_was_read_whole_computes_its_last_token() -> None:
    world = World()
    world.connector.offers["a"] = 10
    request = world.add("a", 10)
    world.step()
    for block, end in zip(request.blocks, (4, 8, 10), strict=True):
        block.tag = request.sequence.digest(end)

    world.scheduler.arrived(request, 10)

    assert world.step() == [("a", 1)]
    assert not request.wrong


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_read_block_with_other_content_is_noticed(damaged: int) -> None:
    world = World()
    world.connector.offers["a"] = 10
    request = world.add("a", 10)
    world.step()
    for block, end in zip(request.blocks, (4, 8, 10), strict=True):
        block.tag = request.sequence.digest(end)
    request.blocks[damaged].tag = b"of another"

    world.scheduler.arrived(request, 10)

    assert request.wrong


def test_kv_computed_after_wrong_kv_is_wrong_for_whoever_finds_it() -> None:
    world = World()
    world.connector.offers["a"] = 4
    first = world.add("a", 9)
    world.step()
    first.blocks[0].tag = b"of another"
    world.scheduler.arrived(first, 4)
    world.step()
    world.finish(first)

    again = world.add("b", 9)
    world.step()

    assert (again.cached, again.wrong) == (8, True)


def test_one_whose_blocks_are_lost_to_a_read_gets_others() -> None:
    world = World()
    world.connector.offers["a"] = 8
    request = world.add("a", 10)
    world.step()
    lost = request.block_ids
    world.connector.offers["a"] = 0

    world.pool.touch(request.blocks)  # as the connector does with them
    world.scheduler.restart(request)

    assert world.step() == [("a", 10)]
    assert not set(lost) & set(request.block_ids)


def test_a_block_that_another_writes_into_meanwhile_is_noticed_at_the_end() -> None:
    world = World()
    request = world.add("a", 9)
    world.step()
    request.blocks[1].tag = b"of another"

    world.scheduler.seal(request)

    assert request.wrong
