"""How `kvlease up` tells what happens: lines for people, with a bar while engines start, or JSON lines for programs."""

import sys
from typing import Self

from kvlease.cli.output import print_json
from kvlease.cli.progress import Bar

LINES = {
    "listening": "registry {registry}, router {router}, gateway {gateway}, their log is {log}",
    "engine started": "{name} is starting, its log is {log}",
    "engine ready": "{name} is ready",
    "engine ended": "{name} has ended",
    "waiting": "waiting for engines: start vLLM with KVLEASE_REGISTRY={registry} and KVLEASE_ROUTER={router}",
    "ready": "ready {url}",
    "stopping": "stopping",
}


class Telling:
    """Tells events for as long as its `with` block lasts."""

    def __init__(self, *, as_json: bool, model: str = "") -> None:
        """Names the *model* to people, if its name is known, once all is ready."""
        self._as_json = as_json
        self._model = model
        self._bar = Bar("starting engines")

    def __enter__(self) -> Self:
        """Shows nothing yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """Takes the bar away."""
        self._bar.close()

    def __call__(self, event: str, /, **data: object) -> None:
        """Tells one."""
        if self._as_json:
            print_json({"event": event, **data}, indent=None)
            return
        if event == "engine started":
            self._bar.expect()
        elif event == "engine ready":
            self._bar.advance()
        elif event in ("ready", "stopping"):
            self._bar.close()
        if event == "ready":
            served = f"model {self._model}, " if self._model else ""
            print(f"{served}status page {data['url']}/ui", file=sys.stderr, flush=True)
        print(LINES[event].format(**data), file=sys.stdout if event == "ready" else sys.stderr, flush=True)
