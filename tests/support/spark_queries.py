"""Runs a streaming query several times with one checkpoint, and records the values of each micro-batch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.spark_topics import Topic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["Batches", "Runs"]


class Batches:
    """A sink that records the values of each micro-batch."""

    def __init__(self) -> None:
        self.by_id: dict[int, list[str]] = {}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        self.by_id[batch_id] = sorted(row[0] for row in frame.selectExpr("string(value)").collect())

    @property
    def values(self) -> list[str]:
        # A copy: a running query adds micro-batches on another thread.
        return sorted(value for values in self.by_id.copy().values() for value in values)


class Runs:
    """The runs of a query with one checkpoint."""

    def __init__(self, spark: SparkSession, topic: Topic, checkpoint: Path, source: str = "klamm") -> None:
        """Sets up the query; `source` is the name for `format(…)`."""
        self.spark = spark
        self.topic = topic
        self.checkpoint = checkpoint
        self.source = source

    def start(self, sink: Batches, *, available_now: bool = False, **options: Any) -> StreamingQuery:
        frame = self.spark.readStream.format(self.source).options(**self.topic.options(**options)).load()
        writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(self.checkpoint))
        return (writer.trigger(availableNow=True) if available_now else writer).start()

    def to_the_end(self, **options: Any) -> Batches:
        """Runs the query until all available records are read, and returns its micro-batches."""
        sink = Batches()
        self.start(sink, available_now=True, **options).awaitTermination()
        return sink

    @contextmanager
    def running(self, **options: Any) -> Iterator[tuple[StreamingQuery, Batches]]:
        sink = Batches()
        query = self.start(sink, **options)
        try:
            yield query, sink
        finally:
            query.stop()

    def forget_last_commit(self) -> None:
        """Removes the newest entry of the commit log, as if the driver crashed between the sink and the commit log."""
        newest = max(
            (path for path in (self.checkpoint / "commits").iterdir() if path.name.isdigit()), key=lambda p: int(p.name)
        )
        newest.unlink()
        (newest.parent / f".{newest.name}.crc").unlink(missing_ok=True)

    def last_offsets(self) -> str:
        """Returns the offsets in the newest entry of the checkpoint's offset log."""
        newest = max(
            (path for path in (self.checkpoint / "offsets").iterdir() if path.name.isdigit()), key=lambda p: int(p.name)
        )
        return newest.read_text(encoding="utf-8").splitlines()[-1]
