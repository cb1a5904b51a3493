"""The recent turns of this router: bounded, oldest out first. A forgotten one is served like another router's."""

from collections import OrderedDict
from collections.abc import Callable, Iterator

from kvlease.router.errors import TicketNotFound
from kvlease.router.record import Record
from kvlease.router.ticket import Terms


class Tickets:
    """Finds turns by ticket id and, for retries, by request id. Nothing is found at or after its end."""

    def __init__(self, *, capacity: int, forgot: Callable[[Record], None], clock: Callable[[], float]) -> None:
        """Keeps at most *capacity* turns; *forgot* is told of each one that goes."""
        self._capacity = capacity
        self._forgot = forgot
        self._clock = clock
        self._records: OrderedDict[str, Record] = OrderedDict()  # its oldest entry is found at once, a dict's is not
        self._by_request: dict[tuple[str, str], Record] = {}

    def __len__(self) -> int:
        return len(self._records)

    def add(self, record: Record) -> None:
        """Keeps a turn; for its request id the newest one counts."""
        self._records[record.terms.ticket_id] = record
        if record.decision:
            self._by_request[record.terms.tenant, record.decision.request_id] = record
        self._shrink()

    def by_id(self, ticket_id: str) -> Record:
        """Returns a turn. Raises TicketNotFound."""
        record = self._records.get(ticket_id)
        if record is None or self._clock() >= record.expires:
            raise TicketNotFound(ticket_id)
        return record

    def by_request(self, tenant: str, request_id: str) -> Record | None:
        """Returns what was decided for a request; None if nothing is known."""
        record = self._by_request.get((tenant, request_id))
        return record if record and self._clock() < record.expires else None

    def of(self, terms: Terms) -> Record:
        """Returns the turn of a proved ticket; one of another router begins to be known, and to age, here.

        Raises TicketNotFound when it is too old.
        """
        if terms.ticket_id not in self._records:
            now = self._clock()
            self.add(Record(terms, now, now + terms.lifetime))
        return self.by_id(terms.ticket_id)

    def newest(self, tenant: str, conversation_id: str) -> Iterator[Record]:
        """Yields the tenant's turns, newest first; only one conversation's if its id is given."""
        now = self._clock()
        for record in reversed(self._records.values()):
            terms = record.terms
            if terms.tenant == tenant and conversation_id in ("", terms.conversation_id) and now < record.expires:
                yield record

    def release(self) -> None:
        """Ends all waits for prefill's outcome."""
        for record in self._records.values():
            record.release()

    def _shrink(self) -> None:
        now = self._clock()
        while self._records:
            oldest = next(iter(self._records.values()))
            if len(self._records) <= self._capacity and now < oldest.expires:
                return
            self._records.popitem(last=False)
            request = (oldest.terms.tenant, oldest.decision.request_id) if oldest.decision else None
            if request and self._by_request.get(request) is oldest:
                del self._by_request[request]
            self._forgot(oldest)
