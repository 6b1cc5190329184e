"""Loads partitions in small steps, in rotation, so that the event loop is free in between.

A large partition does not delay a small one that comes after it, and loaded partitions continue to answer.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from klamm.core.coordinator.shard_contract import Shard
from klamm.protocol.types import Offset
from klamm.runtime.led_partition import LedPartition, PartitionState
from klamm.runtime.ports import Cancellable, Timers

__all__ = ["LoadQueue"]

S = TypeVar("S", bound=Shard)

_logger = logging.getLogger(__name__)

_STEP_MS: Final = 4.0
"""After this time the event loop gets control back. No request should wait for ten milliseconds."""


class LoadQueue(Generic[S]):
    """The loads in progress."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._queue: deque[tuple[LedPartition[S], Iterator[Offset]]] = deque()
        self._next_step: Cancellable | None = None
        self._is_in_step = False

    def add(self, led: LedPartition[S], steps: Iterator[Offset]) -> None:
        """Adds the load of a partition; each `next` on `steps` does a small part of it."""
        self._queue.append((led, steps))
        if self._next_step is None and not self._is_in_step:
            # The first step runs immediately, so that a new or small partition answers without delay.
            self._step()

    def stop(self) -> None:
        """Drops all loads and cancels the next step."""
        self._queue.clear()
        if self._next_step is not None:
            self._next_step.cancel()
            self._next_step = None

    def _step(self) -> None:
        self._next_step = None
        self._is_in_step = True
        try:
            self._take_steps()
        finally:
            self._is_in_step = False
        if self._queue:
            self._queue.rotate(-1)
            self._next_step = self._timers.call_soon(self._step)

    def _take_steps(self) -> None:
        until_ms = self._timers.now_ms() + _STEP_MS
        while self._queue and self._timers.now_ms() < until_ms:
            led, steps = self._queue[0]
            if led.state in (PartitionState.FAILED, PartitionState.CLOSED):
                self._queue.popleft()
                continue
            try:
                is_finished = next(steps, None) is None
            except Exception:
                _logger.exception(
                    "partition %d of the internal topic cannot be read: its groups have no coordinator", led.partition
                )
                led.state = PartitionState.FAILED
                continue
            if is_finished:
                self._queue.popleft()
