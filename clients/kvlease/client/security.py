"""How a client shows who it is, and whom it believes: certificates, or a bearer token, or neither.

Files are read when a channel opens, and again when servers turn their contents down and there are newer ones.
"""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import grpc

Stamp: TypeAlias = tuple[tuple[int, int, int], ...]
"""When and as what files were last written."""
Metadata: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """What one channel is opened with."""

    credentials: grpc.ChannelCredentials | None
    """None: plain text."""
    metadata: Metadata
    """Sent with every call."""
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """Where certificates and token are. Nothing set: plain text, and no name.

    Attributes:
        ca: PEM file of the authorities that servers are believed on; set: all is encrypted (`KVLEASE_CA`).
        cert: PEM file of the client's own certificate and what leads to its authority (`KVLEASE_CERT`).
        key: PEM file of its private key (`KVLEASE_KEY`).
        token: Bearer token (`KVLEASE_TOKEN`).
        token_file: File with the bearer token, which goes before *token* (`KVLEASE_TOKEN_FILE`).
        server_name: What servers' certificates must name, if not the host of their address (`KVLEASE_SERVER_NAME`).
    """

    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    token: str = field(default="", repr=False)
    token_file: Path | None = None
    server_name: str = ""

    def __post_init__(self) -> None:
        """Raises ValueError for what makes no sense."""
        if (self.cert is None) != (self.key is None):
            raise ValueError("a certificate needs its key, and a key its certificate: give both")
        if self.cert and not self.ca:
            raise ValueError("a certificate is shown only where all is encrypted: give the CA of the servers too")

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Security":
        """Reads `KVLEASE_CA` and so on. Raises ValueError for what makes no sense."""

        def path(name: str) -> Path | None:
            return Path(environment[name]) if environment.get(name) else None

        return cls(
            ca=path("KVLEASE_CA"),
            cert=path("KVLEASE_CERT"),
            key=path("KVLEASE_KEY"),
            token=environment.get("KVLEASE_TOKEN", ""),
            token_file=path("KVLEASE_TOKEN_FILE"),
            server_name=environment.get("KVLEASE_SERVER_NAME", ""),
        )

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """Options of its channels."""
        return (("grpc.ssl_target_name_override", self.server_name),) if self.server_name else ()

    def check(self) -> None:
        """Raises as `read`. Does nothing of gRPC's, which must not start before a fork."""
        for file in self._files:
            file.read_bytes()
        self._bearer()

    def read(self) -> Shown:
        """Reads the files. Raises OSError for one that cannot be read, ValueError for a token that none can be."""
        stamp = self.stamp()
        token = self._bearer()
        metadata: Metadata = (("authorization", f"Bearer {token}"),) if token else ()
        if self.ca is None:
            return Shown(None, metadata, stamp)
        key, cert = (file.read_bytes() if file else None for file in (self.key, self.cert))
        return Shown(grpc.ssl_channel_credentials(self.ca.read_bytes(), key, cert), metadata, stamp)

    def _bearer(self) -> str:
        token = (self.token_file.read_text() if self.token_file else self.token).strip()
        if not (token.isascii() and token.isprintable()):
            raise ValueError("the bearer token has characters that no header can carry")
        return token

    def stamp(self) -> Stamp:
        """Tells the files' present state; one that is missing has none."""
        stamps: list[tuple[int, int, int]] = []
        for file in self._files:
            with contextlib.suppress(OSError):
                told = file.stat()
                stamps.append((told.st_mtime_ns, told.st_ino, told.st_size))
        return tuple(stamps)

    @property
    def _files(self) -> list[Path]:
        return [file for file in (self.ca, self.cert, self.key, self.token_file) if file]


PLAIN = Security()
