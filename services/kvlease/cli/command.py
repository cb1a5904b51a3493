"""What a subcommand is, and what those that call a server share: its address, and what its errors mean to people."""

import argparse
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeAlias, TypeVar

from kvlease.cli.knocking import listens
from kvlease.cli.output import printable
from kvlease.client import address
from kvlease.client.channel import DEFAULT_REGISTRY, DEFAULT_ROUTER
from kvlease.client.errors import (
    DeadlineExceeded,
    EngineNotFound,
    KvleaseError,
    Malformed,
    TicketNotFound,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from kvlease.client.lengths import written
from kvlease.client.security import Security
from kvlease.client.sync import Client
from kvlease.rpc.options import add_security, length, security

WordT = TypeVar("WordT", bound=str)

Subparsers: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - it has no other name
Run: TypeAlias = Callable[[argparse.Namespace], int]

OK, FAILED = 0, 1
TIMEOUT = 2.0
CREDENTIALS = "pass --token-file (KVLEASE_TOKEN_FILE), or --cert and --key (KVLEASE_CERT, KVLEASE_KEY)"
HANDSHAKE = "the TLS handshake or the protocol failed"
ENCRYPTION = "is TLS on one side only (--ca, KVLEASE_CA), or was no certificate shown (--cert and --key)?"
_DEFAULTS = {"registry": DEFAULT_REGISTRY, "router": DEFAULT_ROUTER}


class Command(Protocol):
    """A module that adds a subcommand."""

    def add_parser(self, subparsers: Subparsers, /) -> None:
        """Adds its parser, whose default `run` takes the arguments and gives the exit code."""


def add_parser(subparsers: Subparsers, name: str, summary: str, run: Run, *, examples: str) -> argparse.ArgumentParser:
    """Adds a parser whose help ends with examples, one a line."""
    lines = "\n".join(f"  {line.strip()}" for line in examples.strip().splitlines())
    parser = subparsers.add_parser(
        name,
        help=summary,
        description=summary[:1].upper() + summary[1:] + ".",
        epilog=f"examples:\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run, parser=parser)
    return parser


def add_connection(parser: argparse.ArgumentParser, *servers: str, environ: Mapping[str, str] = os.environ) -> None:
    """Adds what it takes to call *servers*, of "registry" and "router", and `--json`."""
    for server in servers:
        variable = f"KVLEASE_{server.upper()}"
        default = environ.get(variable) or _DEFAULTS[server]
        told = f"${variable}, or {default}"
        parser.add_argument(f"--{server}", type=_address, default=default, metavar="HOST:PORT", help=told)
    parser.add_argument("--tenant", default=environ.get("KVLEASE_TENANT", ""), help="$KVLEASE_TENANT, or the default")
    parser.add_argument("--timeout", type=length, default=TIMEOUT, metavar="TIME", help=f"default {written(TIMEOUT)}")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_security(parser)
    parser.set_defaults(servers=servers)


def _address(text: str) -> str:
    try:
        address.check(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


class Misused(Malformed):
    """The command line asks for what cannot be."""


def named(text: str) -> str:
    """Takes the name of a conversation or an engine, which is never empty."""
    if not text:
        raise argparse.ArgumentTypeError("a name is needed, which is not empty")
    return text


def at_least_one(text: str) -> int:
    """Takes a number of things."""
    if not (text.isascii() and text.isdecimal() and int(text)):
        raise argparse.ArgumentTypeError("must be a whole number, of 1 or more")
    return int(text)


def one_of(words: Iterable[WordT]) -> Callable[[str], WordT]:
    """Takes one of these words."""
    known = {str(word): word for word in words}

    def read(text: str) -> WordT:
        if text not in known:
            raise argparse.ArgumentTypeError(f"must be one of {', '.join(known)}")
        return known[text]

    return read


def connect(args: argparse.Namespace) -> Client:
    """Makes the client that the arguments ask for. Raises Misused as `shown`."""
    return Client(
        **{server: getattr(args, server) for server in args.servers}, tenant=args.tenant, security=shown(args)
    )


def shown(args: argparse.Namespace) -> Security:
    """Tells how to show oneself. Raises Misused for certificates and tokens that cannot be read."""
    try:
        return security(args)
    except (OSError, ValueError) as error:
        raise Misused(str(error)) from error


def advise(error: KvleaseError, args: argparse.Namespace) -> str:
    """Says what went wrong, and what to do."""
    if type(error) in (Unavailable, DeadlineExceeded, Unimplemented):
        return _unanswered(error, args)
    match error:
        case EngineNotFound():
            return f"no such engine: {printable(args.engine)}; see `kvlease engines`"
        case TicketNotFound():
            return f"no such ticket, or its router has forgotten it: {printable(args.ticket)}; see `kvlease tickets`"
        case Unauthenticated():
            return f"{error}: {CREDENTIALS}"
        case _:
            return str(error)  # which names all that is wrong with a request


def _unanswered(error: KvleaseError, args: argparse.Namespace) -> str:
    servers: tuple[str, ...] = getattr(args, "servers", ())
    who = " or ".join(servers) or "server"
    where = " or ".join(getattr(args, server) for server in servers)
    flags = ", ".join(f"--{server}" for server in servers)
    if type(error) is DeadlineExceeded:
        return f"the {who} at {where} did not answer in time: see its log, or wait longer with --timeout"
    if type(error) is Unimplemented:
        return f"what answers at {where} is no {who}, or an older one: check {flags}"
    if is_http(error):
        return f"what listens at {where} is an HTTP server, perhaps the gateway: check {flags}"
    return _silent({server: getattr(args, server) for server in servers}, args.timeout)


def is_http(error: Exception) -> bool:
    """Tells whether what was called speaks HTTP/1, as gRPC noticed."""
    return type(error) is Unavailable and "http1" in str(error)


def _silent(addresses: Mapping[str, str], timeout: float) -> str:
    """Blames those of the servers at which nothing listens, if there are any."""
    closed = {server: address for server, address in addresses.items() if not listens(address, timeout)}
    who, where = " or ".join(closed or addresses), " or ".join((closed or addresses).values())
    if not closed:
        return f"no {who} answers at {where}: something listens there, but {HANDSHAKE}; {ENCRYPTION}"
    flags = ", ".join(f"--{server}" for server in closed)
    return f"no {who} answers at {where}: start one with `kvlease up`, or pass {flags} HOST:PORT"
