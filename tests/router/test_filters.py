"""Which engines may serve a leg."""

import pytest

from kvlease.router import filters
from kvlease.router.engine import Engine, Role
from tests.router.engines import both, engine, key, prefill


def names(engines: tuple[Engine, ...]) -> list[str]:
    return [e.key.engine_id for e in engines]


def test_an_engine_is_kept_if_it_passes_every_filter() -> None:
    engines = [engine("d0"), engine("d1", draining=True), prefill("p0")]

    assert names(filters.kept(engines, filters.decodes, filters.takes_requests)) == ["d0"]


@pytest.mark.parametrize(
    ("role", "prefills", "decodes"),
    [(Role.PREFILL, True, False), (Role.DECODE, False, True), (Role.BOTH, True, True)],
)
def test_a_role_says_which_legs_an_engine_serves(role: Role, prefills: bool, decodes: bool) -> None:
    assert filters.prefills(engine("e", role)) is prefills
    assert filters.decodes(engine("e", role)) is decodes


@pytest.mark.parametrize(("healthy", "draining"), [(False, False), (True, True), (False, True)])
def test_an_unhealthy_or_draining_engine_takes_no_requests(healthy: bool, draining: bool) -> None:
    assert not filters.takes_requests(engine("e", healthy=healthy, draining=draining))


def test_an_engine_is_excluded_by_its_incarnation() -> None:
    passes = filters.not_among({key("d0")})

    assert not passes(engine("d0"))
    assert passes(engine("d0", key=key("d0")._replace(incarnation="restarted")))


def test_an_engine_is_not_its_own_partner() -> None:
    passes = filters.other_than(both("b0"))

    assert passes(both("b1"))
    assert not passes(both("b0"))
