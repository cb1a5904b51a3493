"""Certificates of servers. They are read again when their files change: new connections get the new ones."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc

from kvlease.rpc.watched import Watched


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Where a server's certificate is, with what leads to its authority, its key, and who may vouch for clients."""

    cert: Path
    key: Path
    client_ca: Path | None = None
    """Set: clients must show a certificate of one of these authorities."""

    @property
    def files(self) -> list[Path]:
        return [file for file in (self.cert, self.key, self.client_ca) if file]


def credentials(tls: Tls) -> grpc.ServerCredentials:
    """Returns the credentials of a gRPC port. Raises OSError or ValueError for files that are none of a server."""
    watched = Watched(tls.files, lambda: _read(tls))
    given = watched.get()

    def newer() -> grpc.ServerCertificateConfiguration | None:
        nonlocal given
        found = watched.get()
        if found is given:
            return None
        given = found
        return found

    return grpc.dynamic_ssl_server_credentials(
        given,
        newer,  # type: ignore[arg-type]  # None: the same as before, which its types do not know
        require_client_authentication=tls.client_ca is not None,
    )


def https(tls: Tls) -> tuple[ssl.SSLContext, Callable[[], None]]:
    """Returns the context of an HTTPS port, and what to call now and then to have it take new files.

    Raises OSError or ValueError for files that are none of a server.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])

    def load() -> None:
        _check(tls)  # a pair that does not match must not take the place of one that does
        context.load_cert_chain(tls.cert, tls.key)

    watched = Watched(tls.files, load)
    return context, watched.get


def _read(tls: Tls) -> grpc.ServerCertificateConfiguration:
    _check(tls)
    pair = (tls.key.read_bytes(), tls.cert.read_bytes())
    return grpc.ssl_server_certificate_configuration([pair], tls.client_ca.read_bytes() if tls.client_ca else None)


def _check(tls: Tls) -> None:
    """Raises OSError or ValueError for what gRPC would take and then fail every handshake with."""
    trial, files = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), f"{tls.cert}, {tls.key}"
    try:
        trial.load_cert_chain(tls.cert, tls.key)
        if tls.client_ca:
            files = str(tls.client_ca)
            trial.load_verify_locations(tls.client_ca)
    except ssl.SSLError as error:  # which names no file
        raise ValueError(f"{files}: {error.reason or error}") from error
