"""A thread of this process that serves one broker on an event loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import wait
from typing import Any, Final, TypeVar

from klamm.broker.server import BrokerServer
from klamm.errors import KlammError

__all__ = ["OPEN_FILES", "BrokerThread"]

T = TypeVar("T")

OPEN_FILES: Final = 256
"""The limit of open log files. Code of the application that calls `select()`, such as py4j for PySpark's callbacks,
can't use descriptors above 1,023."""
_LOOK_INTERVAL_S: Final = 0.1
_NOT_RUNNING: Final = "the broker is not running"


class BrokerThread:
    """One run of a broker, from `start` to `stop`. `make_server` is called on the thread, with its loop running."""

    def __init__(self, make_server: Callable[[], BrokerServer], name: str) -> None:
        self._make_server = make_server
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._is_kill = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: BrokerServer | None = None
        self._addresses: list[tuple[str, int]] = []
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)

    def start(self) -> list[tuple[str, int]]:
        """Starts the broker, waits until it accepts requests, and returns the addresses of its listeners.

        Raises what the start of the broker raises.
        """
        self.begin()
        return self.wait()

    def begin(self) -> None:
        """Begins to start the broker, and does not wait."""
        self._thread.start()

    def wait(self) -> list[tuple[str, int]]:
        """Waits until the broker has started; see `start`."""
        self._started.wait()
        if self._failure is not None:
            self._thread.join()
            raise self._failure
        return self._addresses

    def stop(self, *, is_kill: bool = False) -> None:
        """Stops the broker cleanly, or with `is_kill` as if its process had been killed, and ends the thread."""
        assert self._loop is not None, "it has been started"
        self._is_kill = is_kill
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def pause(self) -> Callable[[bool], None]:
        """Blocks the broker's loop, and returns the function that ends the pause.

        The function is called with whether the broker is killed: then it reads and answers no request that came in
        during the pause, and `stop` follows.
        """
        assert self._loop is not None, "it has been started"
        assert self._server is not None, "it has been started"
        server = self._server
        stopped, goes_on = threading.Event(), threading.Event()
        is_killed = False

        def block() -> None:
            stopped.set()
            goes_on.wait()
            if is_killed:
                server.disconnect()

        def end(is_kill: bool) -> None:
            nonlocal is_killed
            is_killed = is_kill
            goes_on.set()

        self._loop.call_soon_threadsafe(block)
        stopped.wait()
        return end

    def run(self, function: Callable[[BrokerServer], Coroutine[Any, Any, T]]) -> T:
        """Runs a coroutine on the broker's loop and returns its result. Raises KlammError if the broker stops."""
        if self._loop is None or self._server is None or not self._thread.is_alive():
            raise KlammError(_NOT_RUNNING)
        coroutine = function(self._server)
        try:
            running = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        except RuntimeError:  # the loop has closed just now
            coroutine.close()
            raise KlammError(_NOT_RUNNING) from None
        while True:
            wait([running], timeout=_LOOK_INTERVAL_S)
            if running.done():
                return running.result()
            if not self._thread.is_alive():  # the loop's last turn came before the coroutine
                raise KlammError(_NOT_RUNNING)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            self._loop = runner.get_loop()
            try:
                self._server = server = runner.run(self._make())
                self._addresses = runner.run(server.start())
            except BaseException as error:
                self._failure = error
                if self._server is not None:
                    with contextlib.suppress(Exception):
                        runner.run(self._server.stop())
                self._started.set()
                return
            self._started.set()
            self._loop.run_forever()
            runner.run(server.kill() if self._is_kill else server.stop())

    async def _make(self) -> BrokerServer:
        return self._make_server()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
