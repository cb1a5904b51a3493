"""The network between processes: late, lossy, doubling, reordering or cut, for each pair and direction by itself."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from tests.protocol.timeline import Process, Timeline


class Weather(NamedTuple):
    """What becomes of messages on one way. Delays in seconds, the rest are shares."""

    least: float
    most: float
    lost: float = 0.0
    doubled: float = 0.0


FAIR = Weather(0.0002, 0.002)
SLOW = Weather(0.2, 0.9)
LATE = Weather(0.5, 8.0, doubled=0.2)
"""Messages overtake one another, and arrive when nobody waits for an answer any more."""
ROUGH = Weather(0.0002, 0.6, lost=0.3, doubled=0.3)
CUT = Weather(0.0, 0.0, lost=1.0)


class Network:
    """Carries messages between processes by name. No message is older than the most that a weather says."""

    def __init__(self, timeline: Timeline, random: Random) -> None:
        self._timeline, self._random = timeline, random
        self.weather: dict[tuple[str, str], Weather] = {}

    def set(self, sender: str, receiver: str, weather: Weather) -> None:
        """Changes the weather on one way."""
        self.weather[sender, receiver] = weather

    def clear(self) -> None:
        """Makes it fair everywhere."""
        self.weather.clear()

    def post(self, sender: Process, receiver: str, arrive: Callable[[], None]) -> None:
        """Calls *arrive* once, twice or never. The dead send nothing."""
        if not sender.alive:
            return
        weather = self.weather.get((sender.name, receiver), FAIR)
        for _ in range(1 + (self._random.random() < weather.doubled)):
            if self._random.random() >= weather.lost:
                delay = self._random.uniform(weather.least, weather.most)
                self._timeline.at(self._timeline.now + delay, arrive)
