"""The recent turns."""

import pytest

from kvlease.router.errors import TicketNotFound
from kvlease.router.placement import Placement
from kvlease.router.record import Decision, Record
from kvlease.router.tickets import Tickets
from tests.router.engines import engine
from tests.router.test_ticket import SAMPLE
from tests.support.clock import FakeClock

LIFETIME = SAMPLE.lifetime


class Table:
    """The table, its clock, and what it forgot."""

    def __init__(self, capacity: int = 3) -> None:
        self.clock = FakeClock()
        self.forgot: list[str] = []
        self.tickets = Tickets(
            capacity=capacity, forgot=lambda r: self.forgot.append(r.terms.ticket_id), clock=self.clock
        )

    def add(self, name: str, tenant: str = "a", conversation_id: str = "c", request_id: str = "") -> Record:
        placement = Placement(engine("d0"), None, "", "")
        terms = SAMPLE._replace(ticket_id=name, tenant=tenant, conversation_id=conversation_id)
        decision = Decision(request_id or f"r-{name}", "m", 0, placement, "")
        record = Record(terms, self.clock(), self.clock() + LIFETIME, decision)
        self.tickets.add(record)
        return record

    def newest(self, tenant: str = "a", conversation_id: str = "") -> list[str]:
        return [r.terms.ticket_id for r in self.tickets.newest(tenant, conversation_id)]


@pytest.fixture
def table() -> Table:
    return Table()


def test_a_turn_is_found_by_its_ticket_and_by_its_request(table: Table) -> None:
    record = table.add("t1")

    assert table.tickets.by_id("t1") is record
    assert table.tickets.by_request("a", "r-t1") is record


def test_a_request_id_belongs_to_its_tenant(table: Table) -> None:
    table.add("t1")

    assert table.tickets.by_request("b", "r-t1") is None


def test_nothing_is_found_at_its_end(table: Table) -> None:
    record = table.add("t1")
    table.clock.advance(LIFETIME)

    with pytest.raises(TicketNotFound):
        table.tickets.by_id("t1")
    with pytest.raises(TicketNotFound):
        table.tickets.of(record.terms)
    assert table.tickets.by_request("a", "r-t1") is None
    assert table.newest() == []


def test_a_ticket_of_another_router_ages_from_when_it_was_first_seen(table: Table) -> None:
    table.clock.advance(1000.0)
    record = table.tickets.of(SAMPLE)
    table.clock.advance(LIFETIME - 1.0)

    assert table.tickets.of(SAMPLE) is record
    table.clock.advance(1.0)
    with pytest.raises(TicketNotFound):
        table.tickets.of(SAMPLE)


def test_the_oldest_go_when_there_are_too_many(table: Table) -> None:
    for name in ("t1", "t2", "t3", "t4"):
        table.add(name)

    assert table.forgot == ["t1"]
    assert table.newest() == ["t4", "t3", "t2"]
    assert table.tickets.by_request("a", "r-t1") is None


def test_those_too_old_go_when_another_comes(table: Table) -> None:
    table.add("t1")
    table.clock.advance(LIFETIME)
    table.add("t2")

    assert table.forgot == ["t1"]
    assert len(table.tickets) == 1


def test_the_newest_turn_of_a_request_counts_also_when_the_older_one_goes(table: Table) -> None:
    table.add("t1", request_id="r")
    newest = table.add("t2", request_id="r")
    table.add("t3")
    table.add("t4")

    assert table.forgot == ["t1"]
    assert table.tickets.by_request("a", "r") is newest


def test_turns_are_listed_newest_first_within_a_tenant(table: Table) -> None:
    table.add("t1")
    table.add("t2", conversation_id="other")
    table.add("t3", tenant="b")

    assert table.newest() == ["t2", "t1"]
    assert table.newest(conversation_id="c") == ["t1"]
