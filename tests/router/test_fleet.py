"""The engines by model."""

from kvlease.router.fleet import Fleet
from tests.router.engines import LAYOUT, both, engine, key, prefill


def test_a_pool_has_the_engines_of_a_model_that_take_requests() -> None:
    fleet = Fleet.of([engine("d0"), engine("d1", healthy=False), prefill("p0"), both("b0")], 0.0)

    pool = fleet.pools["m"]
    assert list(pool.decodes) == [key("d0"), key("b0")]
    assert {layout: [e.key for e in engines] for layout, engines in pool.prefills.items()} == {
        LAYOUT: [key("p0"), key("b0")]
    }


def test_a_model_is_known_while_none_of_its_engines_can_serve() -> None:
    fleet = Fleet.of([engine("d0", draining=True)], 0.0)

    assert not fleet.pools["m"].decodes
    assert "other" not in fleet.pools


def test_an_engine_may_answer_to_several_models() -> None:
    fleet = Fleet.of([engine("d0", models=frozenset({"m", "lora"})), engine("d1")], 0.0)

    assert list(fleet.pools["lora"].decodes) == [key("d0")]
