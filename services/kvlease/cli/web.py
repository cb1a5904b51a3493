"""How commands talk to the gateway, which speaks HTTP."""

import argparse
import os
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from kvlease.cli.command import Misused, shown

if TYPE_CHECKING:
    import httpx2

DEFAULT = "http://127.0.0.1:8440"


def add_gateway(parser: argparse.ArgumentParser, *, environ: Mapping[str, str] = os.environ) -> None:
    """Adds where it is."""
    url = environ.get("KVLEASE_GATEWAY") or DEFAULT
    parser.add_argument(
        "--gateway", type=_url, default=url, metavar="URL", help=f"base URL; $KVLEASE_GATEWAY, or {url}"
    )
    key = "file with the API key to show to the gateway; or $KVLEASE_API_KEY, or the token shown to all"
    parser.add_argument("--api-key-file", type=Path, metavar="FILE", help=key)


def client(args: argparse.Namespace) -> "httpx2.Client":
    """Makes a client that believes the authorities that the arguments name, and shows the key to the gateway alone.

    Raises Misused for a key that cannot be read, and as `shown`.
    """
    import httpx2  # noqa: PLC0415 - few commands need it

    security = shown(args)
    return httpx2.Client(
        timeout=args.timeout,
        trust_env=False,
        auth=_to(httpx2.URL(args.gateway), _key(args.api_key_file) or dict(security.read().metadata)),
        verify=ssl.create_default_context(cafile=security.ca) if security.ca else True,
    )


def _key(file: Path | None, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    try:
        key = file.read_text().strip() if file else environ.get("KVLEASE_API_KEY", "")
    except (OSError, UnicodeDecodeError) as error:
        raise Misused(f"the API key cannot be read: {error}") from error
    return {"authorization": f"Bearer {key}"} if key else {}


def _to(gateway: "httpx2.URL", headers: Mapping[str, str]) -> "Callable[[httpx2.Request], httpx2.Request]":
    """Adds *headers* to requests to the gateway: engines, which are asked too, have no business with its keys."""

    def add(request: "httpx2.Request") -> "httpx2.Request":
        url = request.url
        if (url.scheme, url.host, url.port) == (gateway.scheme, gateway.host, gateway.port):
            request.headers.update(headers)
        return request

    return add


def worded(error: Exception) -> str:
    """Says in one line what went wrong."""
    import httpx2  # noqa: PLC0415

    if isinstance(error, httpx2.HTTPStatusError):
        answer = error.response
        return f"{answer.status_code} {answer.reason_phrase}{_said(answer)}"
    return str(error) or type(error).__name__


def _said(answer: "httpx2.Response") -> str:
    """What the body says of an error, in the form of OpenAI's API."""
    try:
        return f": {answer.json()['error']['message']}"
    except (ValueError, LookupError, TypeError):  # it has another form
        return ""


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")) or not urlsplit(text).hostname:
        raise argparse.ArgumentTypeError(f"{text!r} is no URL: write http://HOST:PORT")
    return text.rstrip("/")
