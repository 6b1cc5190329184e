"""One broker of a test's cluster, over all its runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from klamm.broker.server import BrokerServer
from klamm.metadata.memory_store import MemoryStore
from klamm.testing.broker_thread import BrokerThread
from klamm.testing.kept_port import KeptPort

__all__ = ["ClusterMember"]


class ClusterMember:
    """What the cluster knows about the broker. Only the holder of the cluster's lock changes it."""

    def __init__(self, number: int) -> None:
        self.number: Final = number
        self._port = KeptPort()
        self.thread: BrokerThread | None = None
        """None while the broker is away."""
        self.session: MemoryStore | None = None
        self.end_pause: Callable[[bool], None] | None = None
        """Ends the pause of a paused broker; see `BrokerThread.pause`."""
        self.lease: threading.Timer | None = None
        """Ends the session of a paused broker."""
        self.failure: Exception | None = None
        """Why the broker could not start again after its session had ended."""

    @property
    def port(self) -> int:
        """The port of the broker; 0 until the first start has picked one."""
        return self._port.number

    @property
    def is_paused(self) -> bool:
        """Whether the broker is paused."""
        return self.end_pause is not None

    def choose_port(self) -> None:
        """Picks a port before the first start."""
        self._port.choose()

    def begin(self, make_server: Callable[[], BrokerServer]) -> None:
        """Begins a start, and does not wait."""
        self.thread = BrokerThread(make_server, f"klamm-broker-{self.number}")
        self.thread.begin()

    def wait(self) -> None:
        """Waits until the broker accepts requests. Raises what its start raises."""
        assert self.thread is not None
        try:
            self._port.number = self.thread.wait()[0][1]
        except BaseException:
            self.thread = None
            raise

    def end(self, *, is_kill: bool) -> None:
        """Stops the broker, or ends it as if its process had been killed; then its session ends at once."""
        thread, session = self.thread, self.session
        self.thread = self.session = None
        assert thread is not None
        if is_kill and session is not None:
            session.lose()
        thread.stop(is_kill=is_kill)

    def pause(self, session_timeout_s: float) -> None:
        """Blocks the broker. Its session ends after `session_timeout_s`."""
        assert self.thread is not None
        assert self.session is not None
        self.end_pause = self.thread.pause()
        self.lease = threading.Timer(session_timeout_s, self.session.lose)
        self.lease.daemon = True
        self.lease.start()

    def unblock(self, *, is_kill: bool = False) -> None:
        """Ends the pause, if there is one; see `BrokerThread.pause` for `is_kill`."""
        if self.lease is not None:
            self.lease.cancel()
            self.lease = None
        if self.end_pause is not None:
            self.end_pause(is_kill)
            self.end_pause = None
