"""Where a page's commands run: loopback addresses of one's own, so that ports can stay as they are printed."""

import os
import random
from dataclasses import dataclass, field


def _network() -> str:
    """Begins the addresses of one of the 63,504 loopback networks that nobody is likely to use just now."""
    dice = random.SystemRandom()
    return f"127.{dice.randrange(1, 253)}.{dice.randrange(1, 253)}."


@dataclass(frozen=True, slots=True)
class Place:
    """Stands for the reader's machine, 127.0.0.1, and for the hosts of a deployment, 10.0.0.N."""

    here: str = field(default_factory=lambda: f"{_network()}1")
    there: str = field(default_factory=_network)

    def moved(self, text: str) -> str:
        """The text with the addresses of this place."""
        return text.replace("127.0.0.1", self.here).replace("10.0.0.", self.there)

    @property
    def registry(self) -> str:
        return f"{self.here}:7440"

    @property
    def router(self) -> str:
        return f"{self.here}:7441"

    @property
    def gateway(self) -> str:
        return f"{self.here}:8440"

    @property
    def environment(self) -> dict[str, str]:
        """What commands are to find: these addresses in place of the default ones, and time for a busy machine."""
        return os.environ | {
            "HERE": self.here,
            "THERE": self.there,
            "KVLEASE_REGISTRY": self.registry,
            "KVLEASE_ROUTER": self.router,
            "KVLEASE_GATEWAY": f"http://{self.gateway}",
            "KVLEASE_WAIT": "2s",
        }
