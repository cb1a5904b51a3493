"""Addresses that are called."""

import pytest

from kvlease.client import address


@pytest.mark.parametrize("given", ["host:1", "[::1]:7440", "10.0.0.1:1,10.0.0.2:1", "dns:///host", "unix:/run/kvlease"])
def test_what_can_be_called(given: str) -> None:
    address.check(given)


@pytest.mark.parametrize(
    "given",
    ["", "host", "host:", ":1", "host:http", "host:0", "host:65536", "::1", "::1:1", "http://host:1", "a:1,"],
)
def test_what_cannot(given: str) -> None:
    with pytest.raises(ValueError, match="cannot be called"):
        address.check(given)


@pytest.mark.parametrize("given", ["10.0.0.1:1,host:1", "10.0.0.1:1,[::1]:1"])
def test_a_list_is_of_ip_addresses_of_one_kind(given: str) -> None:
    with pytest.raises(ValueError, match="IP"):
        address.check(given)
