"""Which leases go first when some must: those that nobody reads, least valuable first."""

import heapq
from collections.abc import Iterable, Iterator

from kvlease.registry.lease import Kind, State
from kvlease.registry.leases import Lease
from kvlease.registry.ledger import Ledger


def least_valuable(ledger: Ledger, leases: Iterable[Lease]) -> Iterator[Lease]:
    """Gives live, unclaimed DECODE leases, least valuable first; sorts only as far as it is asked.

    Those whose next turn has come and read them go before all others: that turn brings a lease of its own.
    """
    free = [x for x in leases if x.state is State.LIVE and x.kind is Kind.DECODE and not x.claims]
    heap = [(not x.returned, ledger.value.worth(x, ledger.now), x.seq, x) for x in free]
    heapq.heapify(heap)
    while heap:
        yield heapq.heappop(heap)[3]
