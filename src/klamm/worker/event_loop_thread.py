"""An event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

__all__ = ["EventLoopThread"]

_logger = logging.getLogger(__name__)

_CLOSE_SECONDS: Final = 5.0


class EventLoopThread:
    """The thread starts with the first call."""

    def __init__(self) -> None:
        self.loop = _new_loop()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="klamm-worker-loop", daemon=True)

    def _run(self) -> None:
        # A task of a handler may raise SystemExit, which the loop raises too after it has told the handler. The others
        # go on.
        while not self._is_closed:
            with contextlib.suppress(SystemExit, KeyboardInterrupt):
                self.loop.run_forever()

    def call(self, function: Callable[[], None]) -> None:
        """Calls a function on the loop, soon."""
        if not self._thread.is_alive():
            self._thread.start()
        self.loop.call_soon_threadsafe(function)

    def wait_for(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Waits for a coroutine on the loop, but not longer than some seconds."""
        try:
            asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(_CLOSE_SECONDS)
        except TimeoutError:
            _logger.warning("a handler still runs %g seconds after it was cancelled", _CLOSE_SECONDS)

    def close(self) -> None:
        """Ends the thread."""
        self._is_closed = True
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(_CLOSE_SECONDS)
        if not self._thread.is_alive():
            self.loop.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()
