"""The engines of a turn."""

from collections import Counter

import pytest

from kvlease.router.dispatched import Dispatched
from kvlease.router.engine import Engine, EngineKey
from kvlease.router.errors import ModelNotFound, NoEngine
from kvlease.router.fleet import Fleet
from kvlease.router.overload import Overload
from kvlease.router.placement import MISFITS, Placement, Placer, Turn
from kvlease.router.ticket import Terms
from tests.router.engines import LAYOUT, MODEL, OTHER_KEY, OTHER_LAYOUT, both, engine, key, picker, prefill
from tests.support.clock import FakeClock


def placed(
    *engines: Engine,
    holder: str = "",
    excluded: frozenset[EngineKey] = frozenset(),
    rendezvous: bool = True,
    model: str = MODEL,
) -> Placement:
    placer = Placer(overload=Overload(backlog=4), unseen=lambda _: 0, picker=picker())
    turn = Turn(model, key(holder) if holder else None, excluded, rendezvous)
    return placer.place(Fleet.of(engines, 0.0), turn)


def names(placement: Placement) -> tuple[str, str]:
    return placement.prefill.key.engine_id if placement.prefill else "", placement.decode.key.engine_id


def test_prefill_and_decode_are_chosen_by_load() -> None:
    fleet = [prefill("p0", running=5), prefill("p1"), engine("d0", running=5), engine("d1")]

    assert names(placed(*fleet)) == ("p1", "d1")


def test_decode_goes_where_the_conversation_is_held() -> None:
    placement = placed(prefill("p0"), engine("d0"), engine("d1", running=20), holder="d1")

    assert names(placement) == ("p0", "d1")
    assert placement.why == "decode d1: holds the conversation; prefill p0: least loaded"


@pytest.mark.parametrize(
    "holder",
    [
        engine("d1", waiting=9),
        engine("d1", free_blocks=0),
        engine("d1", healthy=False),
        engine("d1", draining=True),
        engine("d1", models=frozenset({"other"})),
        prefill("d1"),
        engine("d1", running=9, key=EngineKey("d1", "restarted")),
    ],
    ids=["crowded", "full", "unhealthy", "draining", "other model", "prefill only", "restarted"],
)
def test_decode_goes_elsewhere_when_the_holder_cannot_serve_well(holder: Engine) -> None:
    placement = placed(prefill("p0"), engine("d0", running=1), holder, holder="d1")

    assert placement.decode.key == key("d0")
    assert placement.why_decode.startswith("least loaded, its holder is ")


def test_an_excluded_engine_is_not_chosen_even_if_it_holds_the_conversation() -> None:
    fleet = [prefill("p0"), prefill("p1"), engine("d0"), engine("d1")]

    assert names(placed(*fleet, holder="d0", excluded=frozenset({key("d0"), key("p0")}))) == ("p1", "d1")


def test_an_overloaded_holder_serves_on_when_all_are_overloaded() -> None:
    assert names(placed(prefill("p0"), engine("d0", waiting=9), engine("d1", waiting=9), holder="d1")) == ("p0", "d1")


@pytest.mark.parametrize(
    ("misfit", "named"),
    [
        (prefill("p0", layout=OTHER_LAYOUT), " (p0: other version of vLLM)"),
        (prefill("p0", layout=LAYOUT._replace(kv_layout="layout-b")), " (p0: other KV layout)"),
        (prefill("p0", layout=OTHER_KEY), " (p0: other digest key)"),
        (prefill("p0", layout=OTHER_KEY._replace(kv_layout="b")), " (p0: other KV layout and digest key)"),
        (prefill("p0", models=frozenset({"other"})), ""),
        (prefill("p0", draining=True), ""),
    ],
    ids=["version", "layout", "key", "both", "model", "draining"],
)
def test_without_a_prefill_engine_that_fits_decode_works_alone_and_it_is_told_why(misfit: Engine, named: str) -> None:
    placement = placed(misfit, engine("d0"))

    assert names(placement) == ("", "d0")
    assert placement.why_prefill == f"no other engine fits{named}"


def test_only_some_of_many_misfits_are_named() -> None:
    placement = placed(*(prefill(f"p{i}", layout=OTHER_KEY) for i in range(100)), engine("d0"))

    assert placement.why_prefill.count("other digest key") == MISFITS


def test_without_a_rendezvous_decode_works_alone() -> None:
    placement = placed(prefill("p0"), engine("d0"), rendezvous=False)

    assert placement.why == "decode d0: least loaded; prefill none: the registry is out of reach"


def test_an_engine_for_both_never_serves_both_legs_of_a_turn() -> None:
    assert names(placed(both("b0"))) == ("", "b0")
    assert set(names(placed(both("b0"), both("b1")))) == {"b0", "b1"}


def test_an_engine_for_both_prefills_where_it_alone_can() -> None:
    assert names(placed(both("b0"), engine("d0", running=0))) == ("b0", "d0")


def test_a_decode_engine_that_has_a_partner_is_preferred_at_like_load() -> None:
    assert names(placed(prefill("p0"), engine("d0", layout=OTHER_LAYOUT), engine("d1"))) == ("p0", "d1")


def test_a_prefill_engine_that_can_read_what_is_held_is_preferred_at_like_load() -> None:
    fleet = [prefill("p0", layout=OTHER_KEY), prefill("p1"), prefill("p2", bidirectional=False), engine("d0")]

    assert names(placed(*fleet, holder="d0")) == ("p1", "d0")


def test_engines_with_different_digest_keys_are_no_pair() -> None:
    """While the key changes, each engine works with those that have changed it too, or have not yet."""
    fleet = [prefill("p0", layout=OTHER_KEY), prefill("p1"), engine("d0", running=5), engine("d1", layout=OTHER_KEY)]

    assert names(placed(*fleet)) == ("p0", "d1")
    assert names(placed(prefill("p0", layout=OTHER_KEY), engine("d0"))) == ("", "d0")


def test_no_decode_engine_is_no_engine() -> None:
    for fleet in ([], [prefill("p0")], [prefill("p0"), engine("d0", healthy=False)]):
        with pytest.raises(NoEngine):
            placed(*fleet)


def test_a_model_that_no_engine_of_any_kind_serves_is_not_found() -> None:
    with pytest.raises(ModelNotFound):
        placed(prefill("p0"), engine("d0"), model="other")


def test_twenty_conversations_at_once_are_spread_evenly() -> None:
    """No heartbeat comes in between: what was routed here counts."""
    dispatched = Dispatched(FakeClock())
    placer = Placer(overload=Overload(), unseen=dispatched.count, picker=picker())
    fleet = Fleet.of([*(prefill(f"p{i}") for i in range(2)), *(engine(f"d{i}") for i in range(4))], 0.0)
    chosen: Counter[str] = Counter()

    for turn in range(20):
        placement = placer.place(fleet, Turn(MODEL))
        chosen.update(names(placement))
        assert placement.prefill
        terms = Terms(
            ticket_id=str(turn),
            tenant="a",
            conversation_id="",
            prefill=placement.prefill.key,
            decode=placement.decode.key,
            base_generation=0,
            lifetime=60.0,
        )
        dispatched.routed(terms)

    assert chosen == {"p0": 10, "p1": 10, "d0": 5, "d1": 5, "d2": 5, "d3": 5}
