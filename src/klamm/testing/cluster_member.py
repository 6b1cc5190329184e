"""One broker of a test's cluster, over all its runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

from klamm.metadata.memory_store import MemoryStore
from klamm.testing.broker_thread import BrokerThread

__all__ = ["ClusterMember"]


class ClusterMember:
    """What the cluster knows about the broker. Only the holder of the cluster's lock changes it."""

    def __init__(self, number: int) -> None:
        self.number: Final = number
        self.port = 0
        """0 until the first start has picked one."""
        self.thread: BrokerThread | None = None
        """None while the broker is away."""
        self.session: MemoryStore | None = None
        self.end_pause: Callable[[bool], None] | None = None
        """Ends the pause of a paused broker; see `BrokerThread.pause`."""
        self.lease: threading.Timer | None = None
        """Ends the session of a paused broker."""

    @property
    def is_paused(self) -> bool:
        """Whether the broker is paused."""
        return self.end_pause is not None
