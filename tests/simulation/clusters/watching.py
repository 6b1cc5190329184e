"""What a world of several brokers changes in klamm: it watches the writers of partitions, and makes rare things
common.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

from tests.simulation.loop import EventLoop
from tests.simulation.violation import Violation

from klamm.broker.partitions.partition import Partition
from klamm.metadata.producer_ids import ProducerIds
from klamm.runtime.load_queue import LoadQueue

__all__ = ["watching"]

_PRODUCER_IDS_AT_ONCE: Final = 2
"""Number of producer ids in a block, so that blocks are used up."""


@contextmanager
def watching(events: EventLoop, load_step_ms: float) -> Iterator[None]:
    """Checks that one process writes to a partition under each leader epoch (I6), uses up blocks of producer ids, and
    lets coordinators load in small steps."""
    leaders: dict[tuple[str, int, int], object] = {}
    append, allocate, make = Partition.append, ProducerIds.allocate, LoadQueue.__init__

    def watched(partition: Partition, *arguments: Any, **options: Any) -> Any:
        info = append(partition, *arguments, **options)
        process, key = asyncio._get_running_loop(), (partition.topic, partition.index, partition.leader_epoch)
        if leaders.setdefault(key, process) is not process:
            raise Violation(6, f"two brokers have written to {partition} in leader epoch {key[2]}")
        return info

    def allocate_few(ids: ProducerIds) -> Any:
        return allocate(ids, _PRODUCER_IDS_AT_ONCE)

    def make_slow(queue: LoadQueue[Any], timers: object) -> None:
        make(queue, _SlowTimers(events, load_step_ms))

    with (
        patch.object(Partition, "append", watched),
        patch.object(ProducerIds, "allocate", allocate_few),
        patch.object(LoadQueue, "__init__", make_slow) if load_step_ms else patch.object(LoadQueue, "__init__", make),
    ):
        yield


class _SlowTimers:
    """Timers under which each step of a load takes longer than the loads may take at a time."""

    def __init__(self, events: EventLoop, step_ms: float) -> None:
        self._events = events
        self._step_ms = step_ms
        self._reads = 0

    def now_ms(self) -> float:
        self._reads += 1
        return self._reads * 3.0

    def call_at(self, deadline_ms: float, callback: Callable[[], None]) -> Any:
        raise AssertionError("loads have no deadlines")

    def call_soon(self, callback: Callable[[], None]) -> Any:
        loop = asyncio.get_running_loop()
        return loop.call_later(self._events.random.random() * self._step_ms / 1000, callback)
