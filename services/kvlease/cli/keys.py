"""`kvlease keys new`: makes a bearer token, and what the keys file says of it."""

import argparse
import json
import sys

from kvlease.cli.command import OK, Subparsers
from kvlease.cli.command import add_parser as add
from kvlease.rpc import Role, keys


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease keys new --tenant team-a >> keys.toml
        kvlease keys new --role engine --engine d0 >> keys.toml
    """
    summary = "make a bearer token (API key): standard output is for the keys file, the token is shown beside it"
    parser = add(subparsers, "keys", summary, run, examples=examples)
    option = parser.add_argument
    option("action", choices=["new"], help="make one")
    option("--role", choices=[role.value for role in Role], default=Role.APPLICATION.value, help="default application")
    option("--tenant", default="", metavar="NAME", help="of an application; default: default")
    option("--engine", default="", metavar="ID", help="the only engine that an engine may be")


def run(args: argparse.Namespace) -> int:
    """Prints both. Gives 2 for a key that makes no sense."""
    token, role = keys.make(), Role(args.role)
    tenant = args.tenant or ("default" if role is Role.APPLICATION else "")
    try:
        key = keys.Key(keys.hash_of(token), role, tenant, args.engine)
    except ValueError as error:
        print(f"kvlease: {error}", file=sys.stderr)
        return 2
    lines = {"sha256": key.sha256.hex(), "role": key.role.value, "tenant": key.tenant, "engine": key.engine}
    print("[[keys]]", *(f"{name} = {json.dumps(value)}" for name, value in lines.items() if value), sep="\n")
    print(f"the token, which is not shown again: {token}", file=sys.stderr)
    return OK
