"""Hashes over topics, by which a coordinator and readers of its records detect that assignments may have to change.

The hash is Kafka's, so a group's record has the same hash in klamm and in Kafka. After Apache Kafka's
`org.apache.kafka.coordinator.group.Utils`: `computeTopicHash` and `computeGroupHash`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from xxhash import xxh3_64_intdigest

from klamm.protocol.types import TopicId

__all__ = ["group_hash", "topic_hash"]

_MAGIC: Final = b"\x00"
_INT: Final = struct.Struct("<i")
_LONG: Final = struct.Struct("<q")


def topic_hash(name: str, topic_id: TopicId, partition_count: int, racks: Sequence[Iterable[str]]) -> int:
    """Returns the signed 64-bit hash of one topic.

    `racks` are the racks of each partition's replicas, or empty. Two replicas in one rack give the rack twice.
    """
    parts = [_MAGIC, topic_id[7::-1], topic_id[:7:-1], _string(name), _INT.pack(partition_count)]
    for partition in range(partition_count):
        parts.append(_INT.pack(partition))
        if racks:
            for rack in sorted(racks[partition]):
                parts += (_INT.pack(_utf16_length(rack)), _string(rack))
    return _signed(xxh3_64_intdigest(b"".join(parts)))


def group_hash(hashes: Iterable[tuple[str, int]]) -> int:
    """Returns the hash of a group's topics, from their names and hashes; 0 without topics."""
    ordered = sorted(hashes)
    if not ordered:
        return 0
    return _signed(xxh3_64_intdigest(b"".join(_LONG.pack(each) for _, each in ordered)))


def _string(text: str) -> bytes:
    """Returns Java's characters, low byte first, and then their count, as hash4j's `putString` does."""
    return text.encode("utf-16-le", "surrogatepass") + _INT.pack(_utf16_length(text))


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
