"""Tests how a table of records gets the columns topic and partition, as Spark needs them."""

from __future__ import annotations

from klamm.protocol.records import encode_batch
from klamm.protocol.types import PartitionIndex, TopicPartition
from klamm.spark.source.tasks.arrow_schema import arrow_schema
from klamm.spark.source.tasks.columns import column_filler
from klamm.spark.source.tasks.spark_batches import SparkBatches

PARTITIONS = [
    TopicPartition("t", PartitionIndex(3)),
    TopicPartition("t", PartitionIndex(4)),
    TopicPartition("ünder", PartitionIndex(3)),
]


def places(batches: SparkBatches, *counts: int, include_headers: bool = False) -> list[tuple[str, int, int]]:
    """Returns topic, partition and offset of each row of a table that has the given number of records in each range."""
    filler = column_filler(1_000, 1 << 20, include_headers=include_headers)
    for number, count in enumerate(counts):
        filler.set_range(0, count, number)
        records = memoryview(encode_batch([(0, None, b"v", ())] * 100))
        filler.add_plain_batches(records, 0, check_crcs=True, with_transactions=True)
    batch = batches.batch(filler.take())
    batch.validate(full=True)
    assert batch.schema.equals(arrow_schema(include_headers=include_headers))
    columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset"))
    return list(zip(*columns, strict=True))


def rows(number: int, count: int) -> list[tuple[str, int, int]]:
    partition = PARTITIONS[number]
    return [(partition.topic, partition.partition, offset) for offset in range(count)]


def test_rows_of_several_ranges_stand_in_one_record_batch() -> None:
    """One record batch can hold rows of several ranges, each with its own topic and partition; a range may be empty."""
    for include_headers in (False, True):
        batches = SparkBatches(PARTITIONS, include_headers=include_headers)

        assert places(batches, 2, 3, 4, include_headers=include_headers) == rows(0, 2) + rows(1, 3) + rows(2, 4)
        assert places(batches, 2, 0, 1, include_headers=include_headers) == rows(0, 2) + rows(2, 1)


def test_rows_of_one_range_share_what_was_written_out() -> None:
    """Tables of a single range get the right topic and partition from shared columns, for any range and any number of
    rows."""
    batches = SparkBatches(PARTITIONS, include_headers=False)

    assert places(batches, 2) == rows(0, 2)
    assert places(batches, 5) == rows(0, 5)
    assert places(batches, 0, 3) == rows(1, 3)
    assert places(batches, 0, 0, 1) == rows(2, 1)
