"""The topic of a world of workers, and what is true of its records: which are finished, and which may come again."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from tests.simulation.delivery.plan import DeliveryPlan
from tests.simulation.loop import EventLoop

from klamm.core.delivery.work import Received
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition

__all__ = ["LogRecord", "PartitionLog", "make_logs"]


class LogRecord(NamedTuple):
    """One record of the topic."""

    offset: Offset
    key: bytes | None
    is_slow: bool
    is_poison: bool
    is_undecodable: bool
    produced_ms: int


class PartitionLog:
    """One partition, with what the group has committed for it."""

    def __init__(self, name: TopicPartition, records: Sequence[LogRecord]) -> None:
        self.name = name
        self.records = list(records)
        self.index_of = {record.offset: index for index, record in enumerate(self.records)}
        self._checked = 0
        self.finished: set[Offset] = set()
        """Records whose handler has succeeded, or that were written to the dead letters, in any member."""
        self.committed: Offset | None = None
        self.metadata = ""
        self.known_finished: frozenset[Offset] = frozenset()
        """What the owner had finished, or had from the commit before, when it made the last accepted commit. This is
        kept next to the commit's text, so that it does not depend on how klamm writes and reads the text.
        """

    def read(self, position: Offset, most: int, now_ms: float) -> list[Received]:
        """Returns the next records that were produced by now."""
        at = bisect_left(self.records, position, key=lambda record: record.offset)
        return [
            Received(record.offset, record.key, 10, record)
            for record in self.records[at : at + most]
            if record.produced_ms <= now_ms
        ]

    def first_unfinished_below(self, offset: Offset) -> Offset | None:
        """Returns the first record below the offset that is not finished. Finished records are looked at once."""
        while self._checked < len(self.records) and self.records[self._checked].offset < offset:
            if self.records[self._checked].offset not in self.finished:
                return self.records[self._checked].offset
            self._checked += 1
        return None

    @property
    def end(self) -> Offset:
        """The log end offset after the last record."""
        return Offset(self.records[-1].offset + 1) if self.records else Offset(0)


def make_logs(loop: EventLoop, plan: DeliveryPlan) -> list[PartitionLog]:
    """Returns the partitions with all records that will be produced."""
    logs: list[list[LogRecord]] = [[] for _ in range(plan.partitions)]
    ends = [loop.random.choice((0, 1_000, 1 << 40)) for _ in range(plan.partitions)]
    for number in range(plan.records):
        key: bytes | None = b"%d" % loop.between(1, plan.keys)
        if loop.chance(plan.hot_share):
            key = b"hot"
        elif loop.chance(plan.keyless_share):
            key = None
        index = loop.between(0, plan.partitions - 1) if key is None else sum(key) % plan.partitions
        while loop.chance(plan.gap_share):
            ends[index] += 1 if loop.chance(0.9) else 100_000
        logs[index].append(
            LogRecord(
                Offset(ends[index]),
                key,
                loop.chance(plan.slow_share),
                loop.chance(plan.poison_share),
                loop.chance(plan.undecodable_share),
                number * plan.trouble_ends_ms // plan.records,
            )
        )
        ends[index] += 1
    return [PartitionLog(TopicPartition("records", PartitionIndex(index)), each) for index, each in enumerate(logs)]
