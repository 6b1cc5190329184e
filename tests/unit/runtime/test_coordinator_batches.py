"""Tests the batches that a coordinator writes: how many there are, and which of them are compressed."""

from __future__ import annotations

import random

import pytest

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.offsets.offset_records import offset_tombstone
from klamm.protocol.compression import Compression
from klamm.protocol.records import BatchHeader, FramedRecords, decode_batch, frame_records, read_batch_header
from klamm.protocol.types import Millis, PartitionIndex
from klamm.runtime.coordinator_batches import coordinator_batches
from klamm.runtime.record_serde import GroupRecordSerde


def tombstones(count: int, topic: str = "events") -> list[CoordinatorRecord]:
    return [offset_tombstone("orders", topic, PartitionIndex(index)) for index in range(count)]


def batches(
    records: list[CoordinatorRecord], compression: Compression, max_batch_bytes: int | None = None
) -> list[tuple[int, BatchHeader]]:
    """Returns the number of records and the header of each batch; asserts that no record is lost."""
    found = []
    keys = []
    for part, batch in coordinator_batches(
        records, GroupRecordSerde(), timestamp=Millis(1), compression=compression, max_batch_bytes=max_batch_bytes
    ):
        keys += [record.key for record in decode_batch(batch)]
        found.append((len(part), read_batch_header(batch)))
    assert keys == [GroupRecordSerde().serialize(record)[0] for record in records]
    return found


def test_batches_over_a_quarter_of_a_kilobyte_are_compressed() -> None:
    """Batches above 256 bytes are compressed with `offsets.topic.compression.codec`; smaller ones gain nothing."""
    ((_, one),) = batches(tombstones(1), Compression.NONE)
    topic = "x" * (6 + 256 - one.size_bytes - 1)  # The record's length field takes one more byte, too.
    ((_, largest),) = batches(tombstones(1, topic), Compression.NONE)
    assert largest.size_bytes in (256, 257)
    topic = topic[largest.size_bytes - 256 :]
    ((_, small),) = batches(tombstones(1, topic), Compression.ZSTD)
    assert (small.compression, small.size_bytes) == (Compression.NONE, 256)
    ((_, large),) = batches(tombstones(1, topic + "x"), Compression.ZSTD)
    assert large.compression is Compression.ZSTD
    assert large.size_bytes < 150


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec is not Compression.NONE])
def test_batch_that_would_not_get_smaller_stays_as_it_is(codec: Compression) -> None:
    """A batch that no codec makes smaller, because nothing in it repeats, stays uncompressed."""
    topic = "".join(chr(33 + byte % 94) for byte in random.Random(1).randbytes(249))
    ((_, plain),) = batches(tombstones(1, topic), Compression.NONE)
    ((_, header),) = batches(tombstones(1, topic), codec)
    assert plain.size_bytes > 256
    assert header.size_bytes <= plain.size_bytes
    assert (header.compression is Compression.NONE) is (header.size_bytes == plain.size_bytes)


@pytest.mark.parametrize("codec", list(Compression))
def test_compressed_batch_is_read_back(codec: Compression) -> None:
    """A batch is read back with every codec; with codec NONE it is not compressed."""
    ((_, header),) = batches(tombstones(100), codec)
    assert header.compression is codec


def test_records_that_are_right_alone_are_spread_over_batches() -> None:
    """Independent records are spread over batches, each within the topic's size limit, and none is lost."""
    found = batches(tombstones(100), Compression.NONE, 500)
    assert len(found) > 5
    assert sum(count for count, _ in found) == 100
    assert all(header.size_bytes <= 500 for _, header in found)


def test_records_that_belong_together_are_one_batch() -> None:
    """Records that belong together are one batch of any size; the log refuses a batch that is too large as a whole."""
    assert [count for count, _ in batches(tombstones(1000), Compression.NONE)] == [1000]


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
def test_records_that_were_framed_before_make_the_same_batch(codec: Compression) -> None:
    """Records that were framed earlier give the same batch byte for byte; the other records are framed later."""
    records, serde = tombstones(100), GroupRecordSerde()

    def batch(framed: FramedRecords | None) -> bytes:
        made = coordinator_batches(
            records, serde, timestamp=Millis(1), compression=codec, max_batch_bytes=None, framed=framed
        )
        ((told, encoded),) = made
        assert told == records
        return encoded

    assert batch(frame_records(map(serde.serialize, records[:99]))) == batch(None)
