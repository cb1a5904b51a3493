"""A claim's end counts from when it was asked for, so that delay only ever shortens it."""

from kvlease.connector.claim import Claim
from kvlease.v1.lease_pb2 import Lease


def test_a_claim_holds_before_its_end_and_not_at_it() -> None:
    claim = Claim("c", Lease(), end=10.0)

    assert claim.holds(9.999)
    assert not claim.holds(10.0)


def test_a_renewal_counts_from_its_sending() -> None:
    claim = Claim("c", Lease(), end=10.0)

    claim.extend(sent=8.0, ttl=5.0)

    assert claim.holds(12.9)
    assert not claim.holds(13.0)


def test_a_renewal_that_comes_late_never_shortens() -> None:
    claim = Claim("c", Lease(), end=10.0)

    claim.extend(sent=4.0, ttl=5.0)

    assert claim.end == 10.0
