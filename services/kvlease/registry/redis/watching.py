"""A watch over numbered messages: what happened before its beginning is not told again."""

from kvlease.registry.feed import Happened, Watcher
from kvlease.registry.lists import Filter


class NumberedWatcher(Watcher):
    """A watch that may hear of things before it knows where it begins."""

    def __init__(self, wanted: Filter | None, limit: int) -> None:
        super().__init__(wanted, limit)
        self._after: int | None = None
        self._early: list[tuple[int, Happened]] = []

    def hear(self, number: int, happened: Happened) -> None:
        """Takes an event of the message with that number."""
        if self._after is None:
            self._early.append((number, happened))
        elif number > self._after:
            self.put(happened)

    def begin_after(self, number: int) -> None:
        """Begins after the message with that number."""
        self._after = number
        for early in self._early:
            self.hear(*early)
        self._early.clear()
