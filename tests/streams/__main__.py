"""Shows what streams cost a registry: `python -m tests.streams --watches 5000 --idle 600`.

A registry in a process of its own; watches are opened and cancelled, then one waits, idle, and its channel as well.
"""

import argparse
import asyncio
import sys
import time

from tests.streams.registry import registry
from tests.streams.watches import connect, idle, open_and_cancel, resident

_STEP = 500


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


async def show(address: str, pid: int, watches: int, idle_seconds: float) -> int:
    async with connect(address) as channel:
        await channel.channel_ready()
        for opened in range(0, watches + 1, _STEP):
            if opened:
                begun = time.monotonic()
                await open_and_cancel(channel, _STEP)
                rate = _STEP / (time.monotonic() - begun)
                say(f"{opened} watches opened and cancelled, {resident(pid) / 1e6:.1f} MB, {rate:.0f} a second")
            else:
                say(f"before, {resident(pid) / 1e6:.1f} MB")
        say(f"idle for {idle_seconds:g} s ...")
        ended = await idle(channel, idle_seconds)
        say(f"{ended or 'watch and connection still there'}, {resident(pid) / 1e6:.1f} MB")
    return int(bool(ended))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.streams")
    parser.add_argument("--watches", type=int, default=5000)
    parser.add_argument("--idle", type=float, default=600.0, metavar="SECONDS")
    given = parser.parse_args()
    with registry() as (address, pid):
        return asyncio.run(show(address, pid, given.watches, given.idle))


if __name__ == "__main__":
    sys.exit(main())
