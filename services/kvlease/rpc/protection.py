"""How a server is protected: one set of settings for all services."""

import time
from dataclasses import dataclass
from pathlib import Path

import grpc

from kvlease.rpc import address, keys, tls
from kvlease.rpc.credentials import identify_by
from kvlease.rpc.guard import Guard
from kvlease.rpc.limits import Meter
from kvlease.rpc.tls import Tls


@dataclass(frozen=True, slots=True, kw_only=True)
class Protection:
    """What a server asks of its callers. By default nothing, which is allowed where only this machine can call."""

    tls: Tls | None = None
    """Set: all is encrypted."""
    keys_file: Path | None = None
    """Set: who shows a bearer token must be in it."""
    insecure: bool = False
    """Others may call although something is missing."""
    reflection: bool = True
    """Describe the API to whoever asks, as grpcurl does."""

    @property
    def authenticates(self) -> bool:
        return self.keys_file is not None or (self.tls is not None and self.tls.client_ca is not None)

    def check(self, listen: str) -> None:
        """Raises ValueError if others can reach the address and something is missing that nobody allowed to be."""
        missing = [
            what
            for what, there in (("encrypted (--tls-cert)", self.tls), ("authenticated (--keys)", self.authenticates))
            if not there
        ]
        if missing and not (self.insecure or address.is_local(listen)):
            raise ValueError(
                f"{listen} can be reached by others and is not {' or '.join(missing)}; give --insecure to allow that"
            )

    def credentials(self) -> grpc.ServerCredentials | None:
        """Returns those of a gRPC port; None: plain text. Raises OSError or ValueError for files that make no sense."""
        return tls.credentials(self.tls) if self.tls else None

    def guard(self) -> Guard | None:
        """Returns what stands before the RPCs; None: everybody is trusted. Raises OSError or ValueError as above."""
        if not self.authenticates:
            return None
        known = keys.watch(self.keys_file) if self.keys_file else None
        meter = Meter(lambda tenant: known.get().limits_of(tenant), time.monotonic) if known else None
        return Guard(identify_by(known), meter)


OPEN = Protection()
