"""What must come about once nothing goes wrong any more: turns end, reuse works, and in the end nothing is left."""

from array import array

from kvlease.connector.turn import QUARANTINE
from kvlease.registry.lease import Kind, State
from kvlease.registry.ledger import Ledger
from tests.protocol.engine import BLOCK
from tests.protocol.gateway import Turn
from tests.protocol.world import World

CALM = 17.0
"""Seconds after which the past is over: late messages have come, engines are back, prefill's leases have run out."""
LONGEST_TURN = 30.0
"""Seconds in which turns end: a claim that waits for prefill waits so long for an answer that was lost."""
LONG_AFTER = 100_000.0
TABLES = ("sessions", "engines", "leases", "claims", "conversations", "turns", "tenants", "gone")


def turns_end(world: World) -> None:
    """Every request that was begun is answered, or has failed."""
    for _ in range(int(LONGEST_TURN + (QUARANTINE if _quarantined(world) else 0.0))):
        if not world.gateway.turns:
            return
        world.run(1.0)
    stuck = [f"{turn.name} at {turn.decode.process.name}" for turn in world.gateway.turns]
    raise world.violation(f"hung: {', '.join(stuck)}")


def budgets_are_kept(world: World) -> None:
    """No engine keeps more for conversations than it may; what leases share counts once."""
    assert world.registry is not None
    for session in world.registry.ledger.sessions.values():
        engine = world.by_incarnation.get(session.engine.ref.incarnation)
        if engine is not None and session.open:
            kept = engine.connector.retention._kept
            live = [x for x in session.leases.values() if x.terms.kind is Kind.DECODE and x.state is State.LIVE]
            blocks = {block.block_id for lease in live for block in kept[lease.lease_id]}
            if len(blocks) > session.budget:
                raise world.violation(f"{engine.process.name} keeps {len(blocks)} blocks, and may {session.budget}")


def reuse_works(world: World) -> None:
    """A conversation's second turn reads what its first one left."""
    name = f"afterwards {world.timeline.now}"
    first = _turn(world, name, array("i", range(2 * BLOCK)))
    if not first.answered:
        raise world.violation("no answer, though nothing goes wrong")
    second = _turn(world, name, world.gateway.histories[name][-1] + array("i", range(BLOCK)))
    if not second.answered or not second.legs[0].request.cached:
        raise world.violation("no reuse, though nothing goes wrong")


def memory_comes_back(world: World) -> None:
    """After the end of all conversations their blocks are free within hold, a claim and some heartbeats.

    Blocks that a hung read might still write are kept apart for longer.
    """
    for conversation_id in world.gateway.histories:
        world.gateway.end(conversation_id)
    timing = world.rules.timing
    world.run(timing.hold + timing.claim + 4 * timing.heartbeat)
    if _quarantined(world):
        world.run(QUARANTINE + 2.0)
    for name, engine in world.engines.items():
        if engine.idle_blocks:
            raise world.violation(
                f"{name} keeps {engine.idle_blocks} blocks for ever, for {list(engine.connector.retention._kept)}"
            )


def nothing_is_remembered(world: World, ledger: Ledger) -> None:
    """Left alone, the registry forgets everything."""
    ledger.advance(ledger.now + LONG_AFTER)
    left = [table for table in TABLES if getattr(ledger, table)]
    if left or ledger.timers.next() is not None:
        raise world.violation(f"the registry never forgets its {left}")


def _quarantined(world: World) -> bool:
    """Whether blocks are kept apart that a hung read might still write."""
    return any(engine.connector._leasing._quarantine for engine in world.engines.values())


def _turn(world: World, name: str, prompt: "array[int]") -> Turn:
    turn = world.turn(name, prompt, world.engines["d0"], world.engines["p0"])
    for _ in range(10):
        if turn not in world.gateway.turns:
            break
        world.run(1.0)
    world.run(1.0)
    return turn
