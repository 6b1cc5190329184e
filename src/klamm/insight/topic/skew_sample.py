"""A sample of a topic: how many records and bytes its partitions have, and which keys are the most frequent.

The sample is bounded in records, bytes and time. If a bound ends it early, the figures of each partition are scaled up
to its range, so that partitions that were read less do not look smaller.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from klamm.insight.cluster.partition_sizes import partition_sizes
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.group.group_offsets import end_offsets, list_offsets
from klamm.insight.topic.frequent_keys import FrequentKey, FrequentKeys, record_key
from klamm.insight.topic.sample_range import SampleRange, choose_range

__all__ = ["PartitionSample", "SampleLimits", "TopicSample", "sample_topic"]

_AT_END_WAIT_MS: Final = 50
_QUEUED_KILOBYTES: Final = 16_384
_MESSAGES_AT_ONCE: Final = 64
_POLL_S: Final = 0.2


class SampleLimits(NamedTuple):
    """The bounds of a sample. It ends when it reaches the first of them."""

    records: int = 100_000
    size_bytes: int = 256 * 1024 * 1024
    """Bytes of keys, values and headers, not compressed."""
    seconds: float = 30.0


@dataclass(slots=True)
class PartitionSample:
    """One partition, and what the sample has read of it."""

    partition: int
    log_start: int
    end: int
    """The offset after the last record when the sample began."""
    size_bytes: int | None = None
    """On the disk of a replica, compressed as the producers wrote it; None if the brokers don't tell."""
    start: int = 0
    """The first offset of the sample."""
    position: int = 0
    """The offset up to which the sample has read. Equal to `target` unless a bound ended the sample."""
    target: int = 0
    """Where the sample is complete: the end, or before it if an open transaction hides records."""
    records: int = 0
    record_bytes: int = 0

    @property
    def offsets(self) -> int:
        """How many offsets the partition has: an upper limit for its records."""
        return self.end - self.log_start

    @property
    def gaps(self) -> int:
        """Offsets without a record in the part that was read: compaction, aborted records, or markers."""
        return max(0, self.position - self.start - self.records)

    @property
    def scale(self) -> float:
        """The factor from the part that was read to the range of the sample; 0 if nothing of the range was read."""
        read = self.position - self.start
        return (self.target - self.start) / read if read > 0 else 0.0

    @property
    def is_unread(self) -> bool:
        """Whether a bound ended the sample before it read any record of the partition's range."""
        return self.target > self.start and self.position <= self.start


@dataclass(frozen=True, slots=True)
class TopicSample:
    """A sample of a topic."""

    topic: str
    partitions: Sequence[PartitionSample]
    """In the order of their indexes, without those whose offsets could not be read."""
    unavailable: Sequence[int]
    """Partitions whose offsets could not be read, because they have no leader."""
    by_records: Sequence[FrequentKey]
    """Keys by their number of records, the most frequent first."""
    by_bytes: Sequence[FrequentKey]
    keys: int
    """How many different keys the sample has; a lower limit unless `are_keys_exact`."""
    are_keys_exact: bool
    since_ms: int | None = None
    """The sample has all records from this time on; None if the range was not chosen by time."""
    is_whole: bool = True
    """Whether the sample's range is the whole topic, or all from the given time on."""
    cut_by: str | None = None
    """The bound that ended the sample early: time or bytes."""
    first_ms: int | None = None
    """The earliest timestamp of the records that were read."""
    last_ms: int | None = None

    @property
    def records(self) -> int:
        """How many records were read."""
        return sum(each.records for each in self.partitions)

    @property
    def record_bytes(self) -> int:
        """The bytes of their keys, values and headers."""
        return sum(each.record_bytes for each in self.partitions)


def sample_topic(
    access: ClusterAccess, topic: str, partitions: Sequence[int], limits: SampleLimits, since_ms: int | None = None
) -> TopicSample:
    """Reads the newest records of all partitions; with `since_ms`, only records from that time on.

    Reads as a consumer outside any group and leaves no trace. Raises ClusterError.
    """
    admin = access.admin_client()
    keys = [(topic, partition) for partition in partitions]
    ends = {index: bounds for (_, index), bounds in end_offsets(access, admin, keys).items()}
    found = {index: PartitionSample(index, low, high) for index, (low, high) in sorted(ends.items())}
    sizes = partition_sizes(access, topic, partitions)
    chosen = _range(access, admin, topic, found, records=limits.records, since_ms=since_ms)
    for index, each in found.items():
        each.size_bytes = sizes.get(index)
        each.start = each.position = chosen.starts[index]
        each.target = each.end
    reading = _Reading(access, topic, found)
    cut_by = reading.run(limits)
    return TopicSample(
        topic,
        tuple(found.values()),
        tuple(sorted(set(partitions) - found.keys())),
        tuple(reading.by_records.heaviest()),
        tuple(reading.by_bytes.heaviest()),
        len(reading.by_records),
        reading.by_records.is_exact,
        since_ms if chosen.is_whole else chosen.since_ms,
        chosen.is_whole,
        cut_by,
        reading.first_ms,
        reading.last_ms,
    )


def _range(
    access: ClusterAccess,
    admin: AdminClient,
    topic: str,
    found: Mapping[int, PartitionSample],
    *,
    records: int,
    since_ms: int | None,
) -> SampleRange:
    ends = {index: each.end for index, each in found.items()}

    def offsets_at(timestamp_ms: int) -> dict[int, int]:
        places = [(topic, index) for index in found]
        offsets = list_offsets(access, admin, places, OffsetSpec.for_timestamp(max(0, timestamp_ms)))
        # -1: all records are older.
        return {index: offset if offset >= 0 else ends[index] for (_, index), offset in offsets.items()}

    lows = {index: each.log_start for index, each in found.items()}
    if since_ms is not None:
        from_then = offsets_at(since_ms)
        lows = {index: min(ends[index], max(low, from_then.get(index, low))) for index, low in lows.items()}
    return choose_range(lows, ends, records, time.time_ns() // 1_000_000, offsets_at)


class _Reading:
    """Reads the ranges of all partitions at the same time."""

    def __init__(self, access: ClusterAccess, topic: str, partitions: Mapping[int, PartitionSample]) -> None:
        self.by_records = FrequentKeys()
        self.by_bytes = FrequentKeys()
        self.first_ms: int | None = None
        self.last_ms: int | None = None
        self._access = access
        self._topic = topic
        self._partitions = partitions
        self._open = {index for index, each in partitions.items() if each.start < each.end}

    def run(self, limits: SampleLimits) -> str | None:
        """Reads up to the ends of the ranges. Returns the name of the bound that ended the reading before."""
        if not self._open:
            return None
        settings: dict[str, Any] = {
            "group.id": "klamm-reader",  # librdkafka requires one; the consumer never joins it
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": _AT_END_WAIT_MS,
            "queued.max.messages.kbytes": _QUEUED_KILOBYTES,
        }
        with closing(self._access.connect(Consumer, **settings)) as consumer:
            consumer.assign(
                [TopicPartition(self._topic, index, self._partitions[index].start) for index in sorted(self._open)]
            )
            deadline = time.monotonic() + limits.seconds
            size_bytes = 0
            while self._open:
                if time.monotonic() >= deadline:
                    return "time"
                if size_bytes >= limits.size_bytes:
                    return "bytes"
                for message in consumer.consume(_MESSAGES_AT_ONCE, _POLL_S):
                    index = message.partition()
                    if index in self._open:
                        size_bytes += self._take(self._partitions[index], message)
                        if index not in self._open:
                            consumer.incremental_unassign([TopicPartition(self._topic, index)])
        return None

    def _take(self, partition: PartitionSample, message: Message) -> int:
        """Counts one message. Returns the size of its record, 0 if the message is none of the range."""
        error = message.error()
        offset = message.offset()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise self._access.cluster_error(error)
        if offset is None:
            return 0
        if error is not None or offset >= partition.end:
            if error is not None:
                partition.target = min(partition.end, max(offset, partition.start))
            partition.position = partition.target
            self._open.discard(partition.partition)
            return 0
        size_bytes = self._count(partition, message)
        partition.position = offset + 1
        if partition.position >= partition.end:
            self._open.discard(partition.partition)
        return size_bytes

    def _count(self, partition: PartitionSample, message: Message) -> int:
        data = message.key()
        key = data.encode() if isinstance(data, str) else data
        size_bytes = _length(key) + _length(message.value())
        headers = message.headers()
        for name, value in headers if isinstance(headers, list) else ():
            size_bytes += _length(name) + _length(value)
        partition.records += 1
        partition.record_bytes += size_bytes
        known = record_key(key)
        self.by_records.add(known, partition.partition, 1)
        self.by_bytes.add(known, partition.partition, size_bytes)
        kind, timestamp_ms = message.timestamp()
        if kind != TIMESTAMP_NOT_AVAILABLE:
            self.first_ms = timestamp_ms if self.first_ms is None else min(self.first_ms, timestamp_ms)
            self.last_ms = timestamp_ms if self.last_ms is None else max(self.last_ms, timestamp_ms)
        return size_bytes


def _length(data: bytes | str | None) -> int:
    return len(data.encode() if isinstance(data, str) else data or b"")
