"""Tests workers that exit in the middle of a task: Spark repeats the task, and each record is read once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.spark_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A task hands these records to Spark as one full table and a part of a second table.
_RECORDS = 25_000


def register_dying_source(spark: SparkSession, marker: str, tables: int) -> str:
    """Registers the source under another name, and returns the name.

    The first worker that has handed `tables` tables to Spark exits, as if the kernel killed the worker.
    """
    from klamm.spark.data_source import KlammDataSource
    from klamm.spark.source.batch_reader import KlammBatchReader
    from klamm.spark.source.stream_reader import KlammStreamReader

    def until_death(batches: Iterator[Any]) -> Iterator[Any]:
        for handed, batch in enumerate(batches):
            if handed == tables:
                try:
                    os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
                except FileExistsError:
                    pass
                else:
                    os._exit(9)
            yield batch

    # Spark pickles classes that are defined in a function by value, so the workers can load them.
    class DyingBatch(KlammBatchReader):
        def read(self, partition: Any) -> Iterator[Any]:
            return until_death(super().read(partition))

    class DyingStream(KlammStreamReader):
        def read(self, partition: Any) -> Iterator[Any]:
            return until_death(super().read(partition))

    class DyingSource(KlammDataSource):
        @classmethod
        def name(cls) -> str:
            return "klamm_dying"

        def reader(self, schema: Any) -> KlammBatchReader:
            return DyingBatch(super().reader(schema).options)

        def streamReader(self, schema: Any) -> KlammStreamReader:
            return DyingStream(super().streamReader(schema).options)

    spark.dataSource.register(DyingSource)
    return DyingSource.name()


@pytest.mark.parametrize("tables", [0, 1], ids=["before the first table", "between two tables"])
def test_a_stream_outlives_a_worker(spark: SparkSession, topic: Topic, tmp_path: Path, tables: int) -> None:
    """A stream reads each record once although a worker exits, and the group has the query's offsets."""
    topic.produce(range(_RECORDS), 0)
    marker = tmp_path / "died"
    source = register_dying_source(spark, str(marker), tables)
    group = f"group-of-{topic.name}"
    read: list[int] = []

    def sink(frame: DataFrame, batch_id: int) -> None:
        read.extend(int(row[0]) for row in frame.selectExpr("string(value)").collect())

    options = topic.options(startingOffsets="earliest", kafka_group_id=group)
    frame = spark.readStream.format(source).options(**options).load()
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()

    assert marker.exists()
    assert sorted(read) == list(range(_RECORDS))
    assert topic.committed(group) == topic.ends()


def test_a_batch_read_outlives_a_worker(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    """A batch read returns each record once although a worker exits after it returned a part of its records."""
    topic.produce(range(_RECORDS), 0)
    marker = tmp_path / "died"
    source = register_dying_source(spark, str(marker), 1)

    rows = spark.read.format(source).options(**topic.options()).load().selectExpr("string(value)").collect()

    assert marker.exists()
    assert sorted(int(row[0]) for row in rows) == list(range(_RECORDS))
