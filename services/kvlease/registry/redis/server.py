"""What a server must be for its store to be trusted."""

from collections.abc import Mapping
from typing import NamedTuple

from kvlease.registry.errors import StoreUnreachable
from kvlease.registry.redis.link import Link

OLDEST = (7, 0)


class Unfit(StoreUnreachable):
    """The server is there, and must not be used as it is."""


class Server(NamedTuple):
    """A server as it describes itself; `run_id` is another one each time that it starts."""

    run_id: str
    version: str


async def examine(link: Link) -> Server:
    """Asks a server about itself. Raises Unfit, and StoreUnreachable for one that cannot serve now."""
    told = parse(await link.call("INFO", "everything"))
    if told["role"] != "master":
        raise StoreUnreachable("the server is a replica")
    version = told["redis_version"]
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        raise Unfit(f"the server is version {version}; Redis 7.0 or Valkey 7.2 is needed")
    policy = told["maxmemory_policy"]
    if told["maxmemory"] != "0" and policy != "noeviction":
        raise Unfit(f"the server may evict leases: its maxmemory-policy is {policy}, not noeviction")
    return Server(told["run_id"], version)


def parse(info: bytes) -> Mapping[str, str]:
    """Reads the answer to INFO."""
    lines = (line.partition(":") for line in info.decode(errors="replace").splitlines())
    return {name: value for name, colon, value in lines if colon}
