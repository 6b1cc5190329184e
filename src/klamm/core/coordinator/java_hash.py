"""Java's string hash, which decides on which partition Kafka places a group."""

from __future__ import annotations

import array
import sys

__all__ = ["java_hash", "partition_for"]

_MINIMUM = -(2**31)


def java_hash(text: str) -> int:
    """Returns `String.hashCode`: a polynomial in 31 over the UTF-16 units, as a signed 32-bit number."""
    if text.isascii():
        units: bytes | array.array[int] = text.encode("ascii")
    else:
        # A lone surrogate cannot arrive over the wire, which is UTF-8. It still gets a hash instead of an error.
        units = array.array("H", text.encode("utf-16-le", "surrogatepass"))
        if sys.byteorder == "big":
            units.byteswap()
    value = 0
    for unit in units:
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - 2**32 if value >= 2**31 else value


def partition_for(key: str, partition_count: int) -> int:
    """Returns the partition of an internal topic for the key (Kafka's `Utils.abs`: the minimum counts as 0)."""
    value = java_hash(key)
    return 0 if value == _MINIMUM else abs(value) % partition_count
