"""`kvlease certs dev`: certificates for trying out encryption and identities; not for production."""

import argparse
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

from kvlease.cli.command import FAILED, OK, Subparsers
from kvlease.cli.command import add_parser as add

HOSTS = ("localhost", "127.0.0.1", "::1")
SERVICES = ("registry", "router", "gateway")


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease certs dev certs
        kvlease certs dev certs --host registry --host router --host gateway --engine d0 --engine p0 --tenant team-a
    """
    summary = "make a development CA, and certificates for all that talk to one another"
    parser = add(subparsers, "certs", summary, run, examples=examples)
    option = parser.add_argument
    option("kind", choices=["dev"], help="for development: the CA's key lies beside the certificates")
    option("folder", type=Path, metavar="DIR", help="a CA that is there already is used, and all else issued anew")
    option("--host", action="append", default=[], metavar="NAME", help=f"of services, beside {', '.join(HOSTS)}")
    option("--engine", action="append", default=[], metavar="ID", help="a certificate for this engine alone")
    option("--tenant", action="append", default=[], metavar="NAME", help="one for this tenant's applications")
    option("--days", type=int, default=30, metavar="N", help="how long they are good; default 30")


def run(args: argparse.Namespace) -> int:
    """Writes the certificates and prints their names."""
    from kvlease.cli.authority import Authority  # noqa: PLC0415 - needs cryptography, which nothing else does

    life, hosts = timedelta(days=args.days), [*HOSTS, *args.host]
    try:
        authority = Authority.open(args.folder, life=life)
        for file, path in _wanted(args.engine, args.tenant):
            authority.issue(file, path, hosts if path in SERVICES else HOSTS, life=life)
            print(args.folder / f"{file}.pem")
    except (OSError, ValueError) as error:
        print(f"kvlease: {error}", file=sys.stderr)
        return FAILED
    return OK


def _wanted(engines: list[str], tenants: list[str]) -> Iterator[tuple[str, str]]:
    """Gives file and id of each; an engine without a name may be any engine."""
    for role in (*SERVICES, "operator"):
        yield role, role
    for engine in engines:
        yield f"engine-{quote(engine, safe='')}", f"engine/{quote(engine, safe='')}"
    if not engines:
        yield "engine", "engine"
    for tenant in tenants or ["default"]:
        yield f"application-{quote(tenant, safe='')}", f"application/{quote(tenant, safe='')}"
