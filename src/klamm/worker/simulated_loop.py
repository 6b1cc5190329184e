"""An event loop whose time is simulated: where another loop would wait, this one sets its clock forward."""

from __future__ import annotations

import asyncio
import contextlib
import selectors
from typing import Any

__all__ = ["SimulatedLoop"]


class _Selector(selectors.DefaultSelector):
    """Waits for no time; notes how long it was to wait."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> Any:
        ready = super().select(0)
        if not ready and timeout is not None:
            self.skipped += max(0.0, timeout)
        return ready


class SimulatedLoop(asyncio.SelectorEventLoop):
    """A loop that starts at time 0."""

    def __init__(self) -> None:
        self._own_selector = _Selector()
        super().__init__(self._own_selector)

    def run_forever(self) -> None:
        """Runs until `stop`. `sys.exit` in a task of a handler is an error of the handler, as in a real run."""
        while True:
            with contextlib.suppress(SystemExit):
                super().run_forever()
                return

    def time(self) -> float:
        """Returns the simulated time in seconds."""
        return self._own_selector.skipped
