"""Listen addresses."""

import pytest

from kvlease.rpc import address


@pytest.mark.parametrize("given", ["127.0.0.1:7440", "127.8.9.1:0", "localhost:1", "[::1]:1", "unix:/run/kvlease"])
def test_local_addresses(given: str) -> None:
    address.check(given)

    assert address.is_local(given)


@pytest.mark.parametrize("given", ["0.0.0.0:7440", "[::]:0", "10.0.0.7:1", "registry.internal:7440"])
def test_addresses_that_others_can_reach(given: str) -> None:
    address.check(given)

    assert not address.is_local(given)


@pytest.mark.parametrize(
    "given", ["", "7440", "localhost", "localhost:", "localhost:http", ":7440", "a:65536", "unix:"]
)
def test_what_is_no_listen_address(given: str) -> None:
    with pytest.raises(ValueError, match="no listen address"):
        address.check(given)
