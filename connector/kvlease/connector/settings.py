"""What an operator sets for one engine: environment variables, or the same names in `kv_connector_extra_config`.

The start flags of the published bi-directional set-up need no change; everything of ours has a default.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kvlease.client import address, lengths
from kvlease.client.security import Security
from kvlease.connector.prefix import DigestKey

_SECURITY = (
    "KVLEASE_CA",
    "KVLEASE_CERT",
    "KVLEASE_KEY",
    "KVLEASE_TOKEN_FILE",
    "KVLEASE_TOKEN",
    "KVLEASE_SERVER_NAME",
)
DEFAULT_DIGEST_KEY = "kvlease"  # tells nobody's tokens only where nobody else can call the registry


class SettingsError(ValueError):
    """A setting cannot be used; the message says which, and what it takes."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One engine's settings.

    Attributes:
        registry: Address of the registry (`KVLEASE_REGISTRY`).
        router: Address of the router (`KVLEASE_ROUTER`).
        security: Certificates or token for both (`KVLEASE_CA`, `KVLEASE_CERT`, `KVLEASE_KEY`, `KVLEASE_TOKEN_FILE`,
            `KVLEASE_TOKEN`, `KVLEASE_SERVER_NAME`).
        http_url: Base URL under which gateways reach this engine's OpenAI server (`KVLEASE_HTTP_URL`).
        engine_id: Stable name (`KVLEASE_ENGINE_ID`); empty: host and port of NIXL's side channel.
        digest_key: Secret shared by all engines (`KVLEASE_DIGEST_KEY`).
        wait: Seconds that a request may wait for the control plane in all (`KVLEASE_WAIT`, such as "50ms").
        free_watermark: Share of the KV blocks that is kept free of leases (`KVLEASE_FREE_WATERMARK`).
        recompute_threshold: Fewer tokens than this are computed rather than read (`kv_recompute_threshold`).
        bidirectional: Keep KV for later turns, and read it back (`bidirectional_kv_xfer`).
    """

    registry: str
    router: str
    security: Security
    http_url: str
    engine_id: str
    digest_key: DigestKey
    wait: float
    free_watermark: float
    recompute_threshold: int
    bidirectional: bool

    @classmethod
    def of(cls, extra: Mapping[str, Any], environment: Mapping[str, str]) -> "Settings":
        """Reads settings; *extra* goes before *environment*.

        Raises:
            SettingsError: One of them cannot be used.
        """

        def get(name: str, default: str) -> str:
            return str(extra.get(name.lower(), environment.get(name, default)))

        try:
            key = DigestKey(get("KVLEASE_DIGEST_KEY", DEFAULT_DIGEST_KEY).encode())
        except ValueError as error:
            raise SettingsError(f"KVLEASE_DIGEST_KEY: {error}") from error
        return cls(
            registry=_address("KVLEASE_REGISTRY", get("KVLEASE_REGISTRY", "127.0.0.1:7440")),
            router=_address("KVLEASE_ROUTER", get("KVLEASE_ROUTER", "127.0.0.1:7441")),
            security=_security({name: get(name, "") for name in _SECURITY}),
            http_url=_url("KVLEASE_HTTP_URL", get("KVLEASE_HTTP_URL", "http://127.0.0.1:8000")),
            engine_id=get("KVLEASE_ENGINE_ID", ""),
            digest_key=key,
            wait=_length("KVLEASE_WAIT", get("KVLEASE_WAIT", "50ms"), most=10.0),
            free_watermark=_number("KVLEASE_FREE_WATERMARK", get("KVLEASE_FREE_WATERMARK", "0.05"), most=1.0),
            recompute_threshold=_tokens("kv_recompute_threshold", extra.get("kv_recompute_threshold", 64)),
            bidirectional=_flag("bidirectional_kv_xfer", extra.get("bidirectional_kv_xfer", False)),
        )


def _security(given: Mapping[str, str]) -> Security:
    try:
        found = Security.of(given)
        found.check()  # what is wrong now is better told at the start
    except (OSError, ValueError) as error:
        raise SettingsError(f"{', '.join(name for name in given if given[name])}: {error}") from error
    return found


def _address(name: str, text: str) -> str:
    try:
        address.check(text)
    except ValueError as error:
        raise SettingsError(f"{name}: {error}") from None
    return text


def _url(name: str, text: str) -> str:
    try:
        address.check_url(text)
    except ValueError as error:
        raise SettingsError(f"{name} {error}") from error
    return text.rstrip("/")


def _tokens(name: str, value: Any) -> int:
    if not isinstance(value, int) or value < 0:
        raise SettingsError(f"{name} must be a number of tokens, not {value!r}")
    return value


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise SettingsError(f"{name} must be true or false, not {value!r}")
    return value


def _length(name: str, text: str, *, most: float) -> float:
    try:
        value = lengths.seconds(text)
    except ValueError as error:
        raise SettingsError(f"{name}: {error}") from None
    if value > most:
        raise SettingsError(f"{name} must be at most {lengths.written(most)}, not {text}")
    return value


def _number(name: str, text: str, *, most: float) -> float:
    try:
        value = float(text)
    except ValueError:
        raise SettingsError(f"{name} must be a number, not {text!r}") from None
    if not 0 <= value <= most:
        raise SettingsError(f"{name} must be between 0 and {most:g}, not {text}")
    return value
