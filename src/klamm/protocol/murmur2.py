"""The hash of a record's key by which Kafka's Java client chooses the partition.

Source: `org.apache.kafka.common.utils.Utils.murmur2` of Apache Kafka 4.3.
"""

from __future__ import annotations

from struct import unpack_from
from typing import Final

__all__ = ["murmur2"]

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = 0x5BD1E995
_UINT32: Final = 0xFFFF_FFFF


def murmur2(data: bytes) -> int:
    """Returns the 32-bit murmur2 hash, unsigned, with the seed of Kafka's Java client."""
    length = len(data)
    value = _SEED ^ length
    words = length // 4
    for word in unpack_from(f"<{words}I", data):
        mixed = word * _MULTIPLIER & _UINT32
        mixed ^= mixed >> 24
        value = (value * _MULTIPLIER & _UINT32) ^ (mixed * _MULTIPLIER & _UINT32)
    rest = data[words * 4 :]
    if rest:
        value ^= int.from_bytes(rest, "little")
        value = value * _MULTIPLIER & _UINT32
    value ^= value >> 13
    value = value * _MULTIPLIER & _UINT32
    return value ^ value >> 15
