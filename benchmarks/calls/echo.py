"""The limit that calls are measured against: a server that reads the request, and gives an answer made beforehand.

`python -m benchmarks.calls.echo FILE`; the file is JSON: answers in hex by the method's full name.
"""

import json
import sys
from pathlib import Path
from typing import Any

import grpc
import uvloop

from kvlease.registry.service import NAME as REGISTRY
from kvlease.router.service import NAME as ROUTER
from kvlease.rpc import scheduling, stop_signal
from kvlease.rpc.server import OPTIONS
from kvlease.v1 import registry_pb2, router_pb2

MODULES = {REGISTRY: registry_pb2, ROUTER: router_pb2}


async def serve(answers: dict[str, bytes]) -> None:
    """Serves until a signal comes: grpc.aio alone, without interceptor, identity or checks."""
    server = grpc.aio.server(options=OPTIONS)
    for service, module in MODULES.items():
        methods = {method: _echo(module, method, answer) for method, answer in _of(service, answers)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"ready echo 127.0.0.1:{port}", flush=True)
    await stop_signal()
    await server.stop(0)


def _of(service: str, answers: dict[str, bytes]) -> list[tuple[str, bytes]]:
    prefix = f"/{service}/"
    return [(name.removeprefix(prefix), answer) for name, answer in answers.items() if name.startswith(prefix)]


def _echo(module: Any, method: str, answer: bytes) -> "grpc.RpcMethodHandler[Any, Any]":
    request, response = getattr(module, f"{method}Request"), getattr(module, f"{method}Response")
    message = response.FromString(answer)

    async def call(_request: object, _context: object) -> object:
        return message

    return grpc.unary_unary_rpc_method_handler(call, request.FromString, response.SerializeToString)


if __name__ == "__main__":
    given = json.loads(Path(sys.argv[1]).read_text())
    scheduling.take_turns()
    uvloop.run(serve({name: bytes.fromhex(answer) for name, answer in given.items()}))
