"""Asks a gRPC server for its health: `python -m kvlease.rpc.probe HOST:PORT [SERVICE]`, for containers.

Shows `$KVLEASE_CERT` and believes `$KVLEASE_CA`, as all clients do.
"""

import os
import sys
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from kvlease.client import channel
from kvlease.client.address import check
from kvlease.client.security import Security

_TIMEOUT = 2.0  # seconds


def main(address: str, service: str = "") -> int:
    """Gives 0 if the server, or a service of it, says that it serves; 2 for what is no address."""
    security = Security.of(os.environ)
    try:
        check(address)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    with channel.open_sync(address, security.read(), security) as opened:
        stub: Any = health_pb2_grpc.HealthStub(opened)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=_TIMEOUT)
        except grpc.RpcError as error:
            sys.stderr.write(f"{address}: {error.details()}\n")
            return 1
    return int(answer.status != health_pb2.HealthCheckResponse.SERVING)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
