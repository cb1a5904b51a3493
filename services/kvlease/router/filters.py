"""Which engines may serve a leg: one question each."""

from collections.abc import Callable, Collection, Iterable

from kvlease.router.engine import Engine, EngineKey, Role

Filter = Callable[[Engine], bool]


def kept(engines: Iterable[Engine], *filters: Filter) -> tuple[Engine, ...]:
    """Returns the engines that pass every filter, in their order."""
    for passes in filters:
        engines = filter(passes, engines)
    return tuple(engines)


def prefills(engine: Engine) -> bool:
    return engine.role is not Role.DECODE


def decodes(engine: Engine) -> bool:
    return engine.role is not Role.PREFILL


def takes_requests(engine: Engine) -> bool:
    return engine.healthy and not engine.draining


def not_among(excluded: Collection[EngineKey]) -> Filter:
    return lambda engine: engine.key not in excluded


def other_than(decode: Engine) -> Filter:
    """Passes any engine but *decode*, whose two legs would wait for one another."""
    return lambda engine: engine.key.engine_id != decode.key.engine_id
