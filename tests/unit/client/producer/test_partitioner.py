"""Tests that keys map to the partitions of Kafka's Java client or librdkafka, and that records without a key fill
whole batches."""

from __future__ import annotations

from zlib import crc32

import pytest
from aiokafka.partitioner import murmur2 as murmur2_of_aiokafka
from hypothesis import given
from hypothesis import strategies as st

from klamm.client.producer.partitioner import StickyPartitioner, crc32_partition, murmur2_partition
from klamm.protocol.murmur2 import murmur2


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_that_of_java(key: bytes, expected: int) -> None:
    """The hash matches the examples of Kafka's `UtilsTest`."""
    assert murmur2(key) == expected % 2**32


@given(st.binary(max_size=60))
def test_murmur2_agrees_with_another_client(key: bytes) -> None:
    """The hash of any key is the same as in aiokafka."""
    assert murmur2(key) == murmur2_of_aiokafka(key) % 2**32


@given(st.binary(max_size=40), st.integers(min_value=1, max_value=1000))
def test_a_key_has_one_partition(key: bytes, count: int) -> None:
    """A key's partition depends on the key and the number of partitions only."""
    for name, expected in (("murmur2", murmur2_partition(key, count)), ("consistent_random", crc32(key) % count)):
        partitioner = StickyPartitioner(name, 100, start=3)  # type: ignore[arg-type]
        if key or name == "murmur2":
            assert partitioner.partition(key, 500, count) == partitioner.partition(key, 500, count) == expected < count
    assert crc32_partition(key, count) == crc32(key) % count


def test_records_without_a_key_stay_until_a_batch_is_full() -> None:
    """Records without a key stay in a partition for about `batch.size` bytes; `consistent_random` treats an empty key
    as no key."""
    partitioner = StickyPartitioner("murmur2", 100, start=7)
    assert [partitioner.partition(None, 40, 3) for _ in range(12)] == [1, 1, 1, 2, 2, 2, 0, 0, 0, 1, 1, 1]
    partitioner = StickyPartitioner("consistent_random", 100, start=1)
    assert [partitioner.partition(b"", 100, 4) for _ in range(3)] == [1, 2, 3]
