"""etcd and Redis, loaded with what comes closest to our calls."""

import itertools
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.calls.loads import CONCURRENCY
from benchmarks.calls.wire import Call
from benchmarks.catalogue import Unavailable
from benchmarks.pinned import Served, output, serving
from kvlease.local import ports

_GRANT = b"/etcdserverpb.Lease/LeaseGrant"
_PUT = b"/etcdserverpb.KV/Put"
_KEEP = b"/etcdserverpb.Lease/LeaseKeepAlive"
TTL = 600
_numbers = itertools.count(1)  # of leases, none given twice


@contextmanager
def etcd(core: int | None) -> Iterator[Served]:
    """Serves etcd, its files in memory where that can be: its disk is not what is compared."""
    if shutil.which("etcd") is None:
        raise Unavailable("etcd is not installed: apt-get install etcd-server")
    memory = Path("/dev/shm")  # noqa: S108 - to be on no disk is the purpose
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        client, peer = (f"http://127.0.0.1:{port}" for port in ports.free(2))
        flags = ["--data-dir", folder, "--logger", "zap"]
        urls = ["--listen-client-urls", client, "--advertise-client-urls", client]
        peers = [
            "--listen-peer-urls",
            peer,
            "--initial-advertise-peer-urls",
            peer,
            "--initial-cluster",
            f"default={peer}",
        ]
        ready = r"serving client traffic insecurely[^\n]*?(127\.0\.0\.1:\d+)"
        with serving("etcd", ["etcd", *flags, *urls, *peers], core=core, ready=ready) as served:
            yield served


def grants_with_put(size: int) -> list[Iterator[Call]]:
    """A lease, then a key under it whose value has the size of a handle: what our grant does in one call."""
    value = bytes(size)

    def calls() -> Iterator[Call]:
        for number in _numbers:
            yield _GRANT, _number(1, TTL) + _number(2, number)
            yield _PUT, _bytes(1, b"lease/%016d" % number) + _bytes(2, value) + _number(3, number)

    return [calls() for _ in range(CONCURRENCY)]


def keepalives() -> list[Iterator[Call]]:
    """Keeps the first leases that were granted alive, one a worker, over a stream of its own as etcd's client does."""
    return [itertools.repeat((_KEEP, _number(1, number))) for number in range(1, CONCURRENCY + 1)]


def redis(core: int | None, ours: int | None, size: int, seconds: float) -> dict[str, float]:
    """Sets a second, with a time to live, and extensions of one, by redis-benchmark at the same concurrency."""
    if shutil.which("redis-server") is None or shutil.which("redis-benchmark") is None:
        raise Unavailable("redis-server is not installed: apt-get install redis-server")
    command = ["redis-server", "--port", "0", "--unixsocket", "", "--save", "", "--appendonly", "no"]
    with tempfile.TemporaryDirectory() as folder:
        socket = f"{folder}/redis"
        command[command.index("--unixsocket") + 1] = socket
        with serving("redis", command, core=core, ready=r"accept connections at (\S+)"):
            ask = ["redis-benchmark", "-s", socket, "-c", str(CONCURRENCY), "-r", "100000", "--csv"]
            ask = ask if ours is None else ["taskset", "-c", str(ours), *ask]
            ask += ["-n", str(int(40_000 * seconds))]
            value = "x" * size
            return {
                "set": _rate(output([*ask, "SET", "lease:__rand_int__", value, "EX", str(TTL)], timeout=120)),
                "expire": _rate(output([*ask, "EXPIRE", "lease:__rand_int__", str(TTL)], timeout=120)),
            }


def _rate(told: str) -> float:
    found = re.findall(r'"([\d.]+)"', told.splitlines()[-1])
    return float(found[0])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))
