"""What the command lines of all services take alike."""

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from kvlease.client import lengths
from kvlease.client.security import Security
from kvlease.rpc.protection import Protection
from kvlease.rpc.tls import Tls


class Help(argparse.ArgumentDefaultsHelpFormatter):
    """Shows the defaults that tell something: not that nothing is given, nor that a flag is not set."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        nothing = action.default is None or action.default is False or action.default == ""
        unset = action.const is False  # store_false, whose default is True
        return action.help if nothing or unset else super()._get_help_string(action)


def length(text: str) -> float:
    """Reads a length of time, for `type=`."""
    try:
        return lengths.seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def readable(**files: Path | None) -> None:
    """Checks files by the names of their options. Raises ValueError, which names option and file."""
    for name, file in files.items():
        try:
            if file:
                file.open("rb").close()
        except OSError as error:
            raise ValueError(f"--{name.replace('_', '-')}: {file}: {error.strerror}") from error


def add_protection(parser: argparse.ArgumentParser, *, http: bool = False) -> None:
    """Adds what a server asks of its callers; one that speaks HTTP knows them by their keys alone."""
    add = parser.add_argument_group("who may call").add_argument
    add("--tls-cert", type=Path, metavar="FILE", help="encrypt, with this certificate (PEM)")
    add("--tls-key", type=Path, metavar="FILE", help="its key (PEM)")
    if not http:
        add("--client-ca", type=Path, metavar="FILE", help="callers must show a certificate of these authorities")
        add("--no-reflection", dest="reflection", action="store_false", help="do not describe the API to whoever asks")
    add("--keys", type=Path, metavar="FILE", help="bearer tokens (API keys), and what their tenants may ask for")
    insecure = "let others than this machine call although encryption or authentication is missing"
    add("--insecure", action="store_true", help=insecure)


def add_metrics(parser: argparse.ArgumentParser) -> None:
    """Adds where metrics are served."""
    parser.add_argument("--metrics", default="", metavar="HOST:PORT", help="where Prometheus may fetch /metrics")


def protection(given: argparse.Namespace) -> Protection:
    """Returns what is asked of callers. Raises ValueError for what makes no sense, missing files included."""
    client_ca: Path | None = getattr(given, "client_ca", None)
    if (given.tls_cert is None) != (given.tls_key is None):
        raise ValueError("--tls-cert and --tls-key belong together: give both")
    if client_ca and not given.tls_cert:
        raise ValueError("--client-ca needs --tls-cert: certificates are shown only where all is encrypted")
    readable(tls_cert=given.tls_cert, tls_key=given.tls_key, client_ca=client_ca, keys=given.keys)
    found = Protection(
        tls=Tls(cert=given.tls_cert, key=given.tls_key, client_ca=client_ca) if given.tls_cert else None,
        keys_file=given.keys,
        insecure=given.insecure,
        reflection=getattr(given, "reflection", True),
    )
    found.credentials()  # what is wrong now is better told at the start
    found.guard()
    return found


def add_security(parser: argparse.ArgumentParser) -> None:
    """Adds how it shows itself to the servers that it calls."""
    add = parser.add_argument_group("how it calls others").add_argument
    add("--ca", type=Path, metavar="FILE", help="encrypt, and believe these authorities (PEM); or $KVLEASE_CA")
    add("--cert", type=Path, metavar="FILE", help="certificate to show; or $KVLEASE_CERT")
    add("--key", type=Path, metavar="FILE", help="its key; or $KVLEASE_KEY")
    add("--token-file", type=Path, metavar="FILE", help="bearer token to show; or $KVLEASE_TOKEN_FILE, $KVLEASE_TOKEN")


def security(given: argparse.Namespace, environment: Mapping[str, str] = os.environ) -> Security:
    """Returns how to call others: as the options say, else the environment; with the server's own certificate if none.

    Raises ValueError for what makes no sense, and OSError for files that cannot be read.
    """
    readable(ca=given.ca, cert=given.cert, key=given.key, token_file=given.token_file)
    options = {"CA": given.ca, "CERT": given.cert, "KEY": given.key, "TOKEN_FILE": given.token_file}
    told = {**environment, **{f"KVLEASE_{name}": str(value) for name, value in options.items() if value}}
    if told.get("KVLEASE_CA") and not told.get("KVLEASE_CERT") and getattr(given, "tls_cert", None):
        told |= {"KVLEASE_CERT": str(given.tls_cert), "KVLEASE_KEY": str(given.tls_key)}
    found = Security.of(told)
    found.check()  # likewise
    return found
