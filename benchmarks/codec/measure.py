"""Times each step, one after the other, round by round."""

import gc
import json
import time
from collections.abc import Callable, Iterator

from benchmarks.codec.handle import Given
from benchmarks.sample import turns
from kvlease.connector import body
from kvlease.connector.prefix import Chain
from kvlease.registry import answers, parts
from kvlease.registry.checks import Checks
from kvlease.v1 import lease_pb2

JSON, SERVICES, CONNECTORS = "JSON", "services", "connectors"
DIGESTS, PROOF = "digests", "prefix proof"
CONTENDERS = (JSON, SERVICES, CONNECTORS, DIGESTS, PROOF)


def measure(given: Given, *, rounds: int) -> Iterator[tuple[str, float]]:
    """Gives the microseconds of each step, each as often as there are rounds."""
    chain = Chain(given.key, given.seed, given.tokens)
    steps: dict[str, Callable[[], object]] = {
        JSON: lambda: json.loads(json.dumps(given.params)),
        SERVICES: lambda: _carry(given.wire),
        CONNECTORS: lambda: _both_ends(given),
        DIGESTS: lambda: Chain(given.key, given.seed, given.tokens),
        PROOF: lambda: chain.proved(given.message.chain, len(given.tokens)),
    }
    gc.disable()  # what a collection costs depends on all else that is alive
    try:
        for name in turns(CONTENDERS, rounds):
            yield name, _timed(steps[name])
    finally:
        gc.enable()


def _carry(wire: bytes) -> bytes:
    """What a registry does with a handle between its grant and a claim."""
    checks = Checks()
    kept = parts.handle(checks, lease_pb2.Handle.FromString(wire), "handle")
    checks.done()
    return answers.handle(kept, whole=True).SerializeToString()


def _both_ends(given: Given) -> dict[str, object]:
    message = given.encoded()
    return body.decode(message.body)


def _timed(step: Callable[[], object], *, least: float = 0.002) -> float:
    """Microseconds of CPU of one call, of as many as fill the least time: others on this machine are not its fault."""
    begun = time.thread_time()
    step()
    calls = max(1, int(least / max(time.thread_time() - begun, 1e-6)))
    begun = time.thread_time()
    for _ in range(calls):
        step()
    return (time.thread_time() - begun) / calls * 1e6
