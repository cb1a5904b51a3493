"""The keys file."""

import pytest

from kvlease.rpc import Role, keys
from kvlease.rpc.limits import Limits
from tests.support.credentials import token_of

SHA = "00" * 32
TEXT = f"""
[[keys]]
sha256 = "{keys.hash_of("one").hex()}"
role = "application"
tenant = "a"

[[keys]]
sha256 = "{keys.hash_of("two").hex()}"
role = "engine"
engine = "d0"

[tenants.a]
rate = 5

[tenants."*"]
concurrent = 3
"""


def test_a_token_is_found_by_its_hash() -> None:
    known = keys.parse(TEXT, "keys.toml")

    one, two = known.find("one"), known.find("two")

    assert one is not None
    assert two is not None
    assert (one.role, one.tenant, one.engine) == (Role.APPLICATION, "a", "")
    assert (two.role, two.tenant, two.engine) == (Role.ENGINE, "", "d0")
    assert known.find("three") is None
    assert known.find(token_of(Role.ENGINE)) is None


def test_a_hash_of_which_only_the_beginning_is_right_is_none() -> None:
    known = keys.parse(TEXT.replace(keys.hash_of("one").hex(), keys.hash_of("one").hex()[:-2] + "00"), "keys.toml")

    assert known.find("one") is None


def test_tenants_have_their_own_limits_or_those_of_all_others() -> None:
    known = keys.parse(TEXT, "keys.toml")

    assert known.limits_of("a") == Limits(rate=5)
    assert known.limits_of("b") == Limits(concurrent=3)
    assert keys.parse("keys = []", "keys.toml").limits_of("a") == Limits()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("keys", "keys.toml: "),
        ("", "keys"),
        ("keys = 5", "keys.toml"),
        ("keys = []\nmore = 1", "more"),
        (f'[[keys]]\nsha256 = "{SHA}"\nrole = "king"', "key 1: 'king'"),
        ('[[keys]]\nsha256 = "00"\nrole = "engine"', "key 1: sha256"),
        ('[[keys]]\nsha256 = "no"\nrole = "engine"', "key 1"),
        ('[[keys]]\nsha256 = 5\nrole = "engine"', "key 1"),
        ('[[keys]]\nrole = "engine"', "key 1: 'sha256' is missing"),
        (f'[[keys]]\nsha256 = "{SHA}"\nrole = "application"', "has a tenant"),
        (f'[[keys]]\nsha256 = "{SHA}"\nrole = "application"\ntenant = "{"x" * 257}"', "has a tenant"),
        (f'[[keys]]\nsha256 = "{SHA}"\nrole = "engine"\ntenant = "a"', "has a tenant"),
        (f'[[keys]]\nsha256 = "{SHA}"\nrole = "router"\nengine = "d0"', "engine id"),
        (f'[[keys]]\nsha256 = "{SHA}"\nrole = "engine"\nname = "x"', "name"),
        ("keys = []\n[tenants.a]\nrate = 0", "tenant 'a': rate must be above 0"),
        ("keys = []\n[tenants.a]\nspeed = 1", "tenant 'a'"),
    ],
)
def test_what_makes_no_sense_is_told_with_its_place(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        keys.parse(text, "keys.toml")


def test_a_new_key_is_long_and_recognisable() -> None:
    assert keys.make() != keys.make()
    assert keys.make().startswith("kvk_")
    assert len(keys.make()) > 40
