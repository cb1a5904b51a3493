"""What an operator sets, and what is refused with a message that says which setting and what it takes."""

from typing import Any

import pytest

from kvlease.client.security import PLAIN, Security
from kvlease.connector.settings import Settings, SettingsError


def test_everything_has_a_default() -> None:
    settings = Settings.of({}, {})

    assert (settings.registry, settings.router) == ("127.0.0.1:7440", "127.0.0.1:7441")
    assert (settings.http_url, settings.engine_id) == ("http://127.0.0.1:8000", "")
    assert (settings.wait, settings.free_watermark, settings.recompute_threshold) == (0.05, 0.05, 64)
    assert not settings.bidirectional


def test_the_published_start_flags_are_understood() -> None:
    settings = Settings.of({"bidirectional_kv_xfer": True, "kv_recompute_threshold": 128}, {})

    assert (settings.bidirectional, settings.recompute_threshold) == (True, 128)


def test_the_start_flags_go_before_the_environment() -> None:
    environment = {"KVLEASE_REGISTRY": "env:1", "KVLEASE_ROUTER": "env:2"}

    settings = Settings.of({"kvlease_registry": "flag:1"}, environment)

    assert (settings.registry, settings.router) == ("flag:1", "env:2")


def test_a_slash_at_the_end_of_the_url_is_dropped() -> None:
    assert Settings.of({}, {"KVLEASE_HTTP_URL": "http://h:1/"}).http_url == "http://h:1"


def test_equal_secrets_make_equal_keys() -> None:
    ours, theirs = (Settings.of({}, {"KVLEASE_DIGEST_KEY": "k"}).digest_key for _ in range(2))

    assert ours.key_id == theirs.key_id != Settings.of({}, {}).digest_key.key_id


@pytest.mark.parametrize("value", ["no number", "", "0.05", "-1s", "10.1s", "1h", "inf"])
def test_a_wait_that_cannot_be_kept_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="KVLEASE_WAIT"):
        Settings.of({}, {"KVLEASE_WAIT": value})


@pytest.mark.parametrize("value", ["no number", "-0.1", "1.1", "nan"])
def test_a_watermark_that_is_no_share_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="KVLEASE_FREE_WATERMARK"):
        Settings.of({}, {"KVLEASE_FREE_WATERMARK": value})


@pytest.mark.parametrize("value", ["", "x" * 65])
def test_a_digest_key_that_cannot_be_one_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match=r"KVLEASE_DIGEST_KEY.*1 to 64"):
        Settings.of({}, {"KVLEASE_DIGEST_KEY": value})


@pytest.mark.parametrize("value", ["many", None, -1, 1.5, [64]])
def test_a_threshold_that_is_no_number_of_tokens_is_refused(value: Any) -> None:
    with pytest.raises(SettingsError, match="kv_recompute_threshold"):
        Settings.of({"kv_recompute_threshold": value}, {})


@pytest.mark.parametrize("value", ["false", "yes", 1, None])
def test_a_flag_that_is_neither_true_nor_false_is_refused(value: Any) -> None:
    with pytest.raises(SettingsError, match="bidirectional_kv_xfer"):
        Settings.of({"bidirectional_kv_xfer": value}, {})


@pytest.mark.parametrize("value", ["", "h:1", "ftp://h", "http://", "http://h:port", "http://h:99999", "http://a..b:1"])
def test_a_url_that_nobody_could_reach_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="KVLEASE_HTTP_URL"):
        Settings.of({}, {"KVLEASE_HTTP_URL": value})


@pytest.mark.parametrize("name", ["KVLEASE_REGISTRY", "KVLEASE_ROUTER"])
@pytest.mark.parametrize("value", ["", "host"])
def test_an_address_that_cannot_be_called_is_refused(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        Settings.of({}, {name: value})


def test_credentials_that_cannot_be_read_are_refused_at_the_start() -> None:
    with pytest.raises(SettingsError, match=r"KVLEASE_CA: .*nowhere"):
        Settings.of({}, {"KVLEASE_CA": "nowhere/ca.pem"})
    with pytest.raises(SettingsError, match="give both"):
        Settings.of({}, {"KVLEASE_CERT": "nowhere/engine.pem"})


def test_credentials_are_named_like_everything_else() -> None:
    settings = Settings.of({"kvlease_token": "flag"}, {"KVLEASE_TOKEN": "environment"})

    assert settings.security == Security(token="flag")  # noqa: S106
    assert Settings.of({}, {}).security == PLAIN
