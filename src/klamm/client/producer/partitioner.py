"""Chooses the partition of a record: by the hash of its key, or one after the other for records without a key.

`murmur2` gives the partitions of Kafka's Java client, `consistent_random` those of librdkafka's default (CRC-32), so
records of one key that both clients write are in one partition. Records without a key go to the same partition until
they have about `batch.size` bytes (KIP-480, KIP-794), so that batches become full. Sources:
`org.apache.kafka.common.utils.Utils.murmur2` and `BuiltInPartitioner` of Apache Kafka 4.3; the functions
`rd_kafka_msg_partitioner_…` of librdkafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from zlib import crc32

from klamm.client.producer.producer_config import PartitionerName
from klamm.protocol.murmur2 import murmur2
from klamm.protocol.types import PartitionIndex

__all__ = ["StickyPartitioner", "crc32_partition", "murmur2_partition"]

_POSITIVE: Final = 0x7FFF_FFFF


def murmur2_partition(key: bytes, count: int) -> PartitionIndex:
    """Returns the partition that Kafka's Java client gives to the key, out of `count`."""
    return PartitionIndex((murmur2(key) & _POSITIVE) % count)


def crc32_partition(key: bytes, count: int) -> PartitionIndex:
    """Returns the partition that librdkafka's `consistent_random` gives to the key, out of `count`."""
    return PartitionIndex(crc32(key) % count)


_BY_KEY: Final[dict[PartitionerName, Callable[[bytes, int], PartitionIndex]]] = {
    "murmur2": murmur2_partition,
    "consistent_random": crc32_partition,
}


class StickyPartitioner:
    """The partitioner of one topic."""

    def __init__(self, name: PartitionerName, batch_size_bytes: int, start: int = 0) -> None:
        """Takes the first partition for records without a key as `start`, modulo the number of partitions.

        A random number spreads producers.
        """
        self._by_key = _BY_KEY[name]
        # librdkafka's consistent_random treats an empty key like no key.
        self._empty_is_none = name == "consistent_random"
        self._batch_size_bytes = batch_size_bytes
        self._current = start
        self._sent_bytes = 0

    def partition(self, key: bytes | None, size_bytes: int, count: int) -> PartitionIndex:
        """Returns the partition of a record of about `size_bytes`, out of `count` partitions."""
        if key is not None and not (self._empty_is_none and not key):
            return self._by_key(key, count)
        if self._sent_bytes >= self._batch_size_bytes:
            self._current, self._sent_bytes = self._current + 1, 0
        self._sent_bytes += size_bytes
        return PartitionIndex(self._current % count)
