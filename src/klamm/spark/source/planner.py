"""Which offsets a read or a micro-batch covers, and what it means when the log no longer has them.

The rules and the texts are those of `KafkaOffsetReaderAdmin` and `KafkaMicroBatchStream` in Spark. The log itself is
behind `LogOffsets`, so that the rules need no broker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple, Protocol

from klamm.protocol.types import Offset, TopicPartition
from klamm.spark.source.errors import LossPolicy, OptionError
from klamm.spark.source.offsets import EARLIEST_OFFSET, LATEST_OFFSET, PartitionOffsets
from klamm.spark.source.options import OffsetLimit

__all__ = ["LogOffsets", "OffsetRange", "Planner"]

# As Spark: a leader that has just been elected may not know yet how far its log is committed.
_ATTEMPTS_IF_SHORTER: Final = 3
_SECONDS_BETWEEN_ATTEMPTS: Final = 1.0


class LogOffsets(Protocol):
    """What the planner asks of the cluster about the partitions that are subscribed to."""

    def latest(self) -> PartitionOffsets:
        """The end of each subscribed partition that exists now."""

    def earliest(self, topic_partitions: Collection[TopicPartition]) -> PartitionOffsets:
        """The start of each of these partitions that exists."""

    def missing(self) -> Collection[str]:
        """What is subscribed to and does not exist, as text; right after `latest`."""


class OffsetRange(NamedTuple):
    """The offsets [start, end) of one partition."""

    topic_partition: TopicPartition
    start: Offset
    end: Offset


class Planner:
    """Turns what the options ask for, and what the log has, into ranges of offsets."""

    def __init__(self, log: LogOffsets, loss: LossPolicy, sleep: Callable[[float], None]) -> None:
        self._log = log
        self._loss = loss
        self._sleep = sleep

    def resolve(self, option: str, limit: OffsetLimit) -> PartitionOffsets:
        """The offset of every subscribed partition at a limit.

        Raises `OptionError` if the limit names other partitions than those subscribed to.
        """
        latest = self.existing()
        if limit == "latest":
            return latest
        if limit == "earliest":
            return self._log.earliest(latest)
        assert isinstance(limit, dict)
        if limit.keys() != latest.keys():
            raise OptionError(
                f"If {option} contains specific offsets, you must specify all TopicPartitions. "
                "Use -1 for latest, -2 for earliest, if you don't care. "
                f"Specified: {_listed(limit)} Assigned: {_listed(latest)}"
            )
        wanted = {topic_partition for topic_partition, offset in limit.items() if offset == EARLIEST_OFFSET}
        earliest = self._log.earliest(wanted) if wanted else {}
        return {
            topic_partition: latest[topic_partition]
            if offset == LATEST_OFFSET
            else earliest.get(topic_partition, offset)
            for topic_partition, offset in limit.items()
        }

    def existing(self) -> PartitionOffsets:
        """The end of each subscribed partition; what does not exist counts as lost."""
        latest = self._log.latest()
        for attempt in range(_ATTEMPTS_IF_SHORTER):
            missing = self._log.missing()
            if not missing:
                return latest
            if attempt < _ATTEMPTS_IF_SHORTER - 1:
                # A topic that was created a moment ago may not have reached every broker.
                self._sleep(_SECONDS_BETWEEN_ATTEMPTS / 4)
                latest = self._log.latest()
        names = ", ".join(sorted(missing))
        self._loss.report(f"{names}: no such topic or partition. Is the name right, and was it created?")
        return latest

    def latest_since(self, start: Mapping[TopicPartition, Offset]) -> PartitionOffsets:
        """The end of each subscribed partition, asked again for a while if an end is before where the query stands."""
        latest = self._log.latest()
        for _ in range(_ATTEMPTS_IF_SHORTER - 1):
            if all(latest.get(topic_partition, offset) >= offset for topic_partition, offset in start.items()):
                break
            self._sleep(_SECONDS_BETWEEN_ATTEMPTS)
            latest = self._log.latest()
        return latest

    def start_of_new(
        self, start: Mapping[TopicPartition, Offset], latest: Mapping[TopicPartition, Offset]
    ) -> PartitionOffsets:
        """`start`, and the beginning of each partition that `latest` has beyond it."""
        new = latest.keys() - start.keys()
        return {**start, **(self._log.earliest(new) if new else {})}

    def batch_ranges(self, starting: OffsetLimit, ending: OffsetLimit) -> list[OffsetRange]:
        """The ranges of a batch read. Raises `OptionError`, or `DataLoss` for a start beyond the end."""
        start = self.resolve("startingOffsets", starting)
        end = self.resolve("endingOffsets", ending)
        common = {topic_partition: offset for topic_partition, offset in start.items() if topic_partition in end}
        return self._ranges(common, end)

    def stream_ranges(
        self, start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]
    ) -> list[OffsetRange]:
        """The ranges of a micro-batch between two offsets of the checkpoint. Raises `DataLoss`."""
        new = end.keys() - start.keys()
        beginnings = self._log.earliest(new) if new else {}
        if deleted := new - beginnings.keys():
            self._loss.report(f"Cannot find earliest offsets of {_listed(deleted)}. Some data may have been missed")
        for topic_partition, offset in sorted(beginnings.items()):
            if offset != 0:
                self._loss.report(
                    f"Added partition {topic_partition} starts from {offset} instead of 0. "
                    "Some data may have been missed"
                )
        if gone := start.keys() - end.keys():
            self._loss.report(f"{_listed(gone)} are gone. Some data may have been missed")
        return self._ranges({**start, **beginnings}, end)

    def _ranges(
        self, start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]
    ) -> list[OffsetRange]:
        ranges = []
        for topic_partition in sorted(end.keys() & start.keys()):
            begin, until = start[topic_partition], end[topic_partition]
            if until < begin:
                self._loss.report(
                    f"Partition {topic_partition}'s offset was changed from {begin} to {until}. This could be either "
                    "1) a user error that the start offset is set beyond available offset when starting query, or "
                    "2) the kafka topic-partition is deleted and re-created"
                )
            elif begin < until:
                ranges.append(OffsetRange(topic_partition, begin, until))
        return ranges


def _listed(topic_partitions: Collection[TopicPartition]) -> str:
    return "{" + ", ".join(map(str, sorted(topic_partitions))) + "}"
