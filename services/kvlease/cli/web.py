"""How commands talk to the gateway, which speaks HTTP."""

import argparse
import os
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kvlease.cli.command import shown

if TYPE_CHECKING:
    import httpx2

DEFAULT = "http://127.0.0.1:8440"


def add_gateway(parser: argparse.ArgumentParser, *, environ: Mapping[str, str] = os.environ) -> None:
    """Adds where it is."""
    url = environ.get("KVLEASE_GATEWAY") or DEFAULT
    parser.add_argument(
        "--gateway", type=_url, default=url, metavar="URL", help=f"base URL; $KVLEASE_GATEWAY, or {url}"
    )


def client(args: argparse.Namespace) -> "httpx2.Client":
    """Makes a client that shows the token and believes the authorities that the arguments name."""
    import httpx2  # noqa: PLC0415 - few commands need it

    security = shown(args)
    return httpx2.Client(
        timeout=args.timeout,
        trust_env=False,
        headers=dict(security.read().metadata),
        verify=ssl.create_default_context(cafile=security.ca) if security.ca else True,
    )


def worded(error: Exception) -> str:
    """Says in one line what went wrong."""
    import httpx2  # noqa: PLC0415

    if isinstance(error, httpx2.HTTPStatusError):
        return f"{error.response.status_code} {error.response.reason_phrase}"
    return str(error) or type(error).__name__


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} is no URL: write http://HOST:PORT")
    return text.rstrip("/")
