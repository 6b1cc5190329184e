"""Measures how fast partitions grow, from their high watermarks every few seconds.

A broker with many thousands of partitions measures a hundred of them in one step of the event loop. It reports a
snapshot only when the snapshot is complete.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from math import exp
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from klamm.core.group.partition_traffic import PartitionTraffic, Traffic
from klamm.protocol.types import Offset

if TYPE_CHECKING:
    from klamm.broker.partitions.partition import Partition
    from klamm.broker.partitions.partition_registry import PartitionRegistry

__all__ = ["TrafficMeter"]

_PARTITIONS_IN_A_STEP: Final = 100
_MEMORY_S: Final = 30.0
"""A rate measured this many seconds ago has a third of the weight of the current rate."""


class _Mark(NamedTuple):
    """The last measurement of a partition. A rate needs two measurements."""

    time_s: float
    high_watermark: Offset
    arrival_rate: float | None


_Traffic: TypeAlias = dict[str, list[PartitionTraffic | None]]
_Marks: TypeAlias = "dict[Partition, _Mark]"


class TrafficMeter:
    """Reports the traffic of all partitions that this broker leads, every `interval_s`, from `start` to `stop`."""

    def __init__(self, partitions: PartitionRegistry, interval_s: float, report: Callable[[Traffic], None]) -> None:
        self._partitions = partitions
        self._interval_s = interval_s
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.Handle | None = None
        self._seen: _Marks = {}

    def start(self) -> None:
        """Makes the first measurement, the base of later rates."""
        self._look()

    def stop(self) -> None:
        """Stops the measurements."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _look(self) -> None:
        traffic: _Traffic = {}
        seen: _Marks = {}
        self._step(self._measure_all(traffic, seen), traffic, seen)

    def _step(
        self,
        partitions: Iterator[None],
        traffic: _Traffic,
        seen: _Marks,
    ) -> None:
        for count, _ in enumerate(partitions, 1):
            if count == _PARTITIONS_IN_A_STEP:
                self._handle = self._loop.call_soon(self._step, partitions, traffic, seen)
                return
        self._seen = seen
        # All shards hear of it at once, which is a step of its own.
        self._handle = self._loop.call_soon(self._end, traffic)

    def _end(self, traffic: _Traffic) -> None:
        self._handle = self._loop.call_later(self._interval_s, self._look)
        self._report(traffic)

    def _measure_all(self, traffic: _Traffic, seen: _Marks) -> Iterator[None]:
        """Fills `traffic` and `seen`, one partition in a step."""
        for topic in list(self._partitions.by_name.values()):
            measured = traffic[topic.name] = []
            for partition in topic.partitions:
                measured.append(None if partition is None else self._measure(partition, seen))
                yield

    def _measure(self, partition: Partition, seen: _Marks) -> PartitionTraffic:
        log = partition.log
        time_s, high_watermark = self._loop.time(), log.high_watermark
        rate = None
        before = self._seen.get(partition)
        if before is not None:
            before_s, before_high_watermark, rate_before = before
            passed_s = max(time_s - before_s, 0.001)
            rate = max(high_watermark - before_high_watermark, 0) / passed_s
            if rate_before is not None and rate != rate_before:
                rate = rate_before + (1 - exp(-passed_s / _MEMORY_S)) * (rate - rate_before)
        seen[partition] = _Mark(time_s, high_watermark, rate)
        return PartitionTraffic(log.log_start_offset, high_watermark, rate or 0.0)
