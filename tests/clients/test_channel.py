import pytest

from kvlease.client import channel
from kvlease.client.errors import Malformed


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("registry:7440", "dns:///registry:7440"),
        ("127.0.0.1:7440", "dns:///127.0.0.1:7440"),
        ("[::1]:7440", "dns:///[::1]:7440"),
        ("10.0.0.1:7440,10.0.0.2:7440", "ipv4:10.0.0.1:7440,10.0.0.2:7440"),
        ("[fd00::1]:7440,[fd00::2]:7440", "ipv6:[fd00::1]:7440,[fd00::2]:7440"),
        ("dns://10.0.0.53/registry:7440", "dns://10.0.0.53/registry:7440"),
        ("unix:/run/kvlease.sock", "unix:/run/kvlease.sock"),
    ],
)
def test_an_address_becomes_a_target(address: str, target: str) -> None:
    assert channel.target(address) == target


@pytest.mark.parametrize("address", ["", "registry"])
def test_what_cannot_be_called_is_refused_at_once(address: str) -> None:
    with pytest.raises(Malformed):
        channel.target(address)


def test_no_tenant_sends_no_metadata() -> None:
    assert channel.metadata("") == ()


def test_a_tenant_that_metadata_cannot_carry_is_refused() -> None:
    with pytest.raises(Malformed):
        channel.metadata("ténant")
