"""An event loop on a thread of its own, for work that another thread must not wait for."""

import asyncio
import threading


class LoopThread:
    """Runs one event loop. Several links may share it."""

    def __init__(self, name: str) -> None:
        """Starts nothing: the process may still fork its workers."""
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def running(self) -> bool:
        """Whether it was started and not stopped."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Starts the thread, unless it runs already."""
        if not self.running:
            self._thread.start()

    def stop(self) -> None:
        """Cancels whatever still runs on the loop and closes it; waits up to a second for that."""
        if self.running:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(1)
        else:
            self.loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        with asyncio.Runner(loop_factory=lambda: self.loop) as runner:
            runner.get_loop().run_forever()
