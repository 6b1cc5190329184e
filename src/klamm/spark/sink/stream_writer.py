"""The writer of streaming queries. For each micro-batch, Spark makes a writer for the tasks and one for the commit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from klamm.spark.frozen_objects import spare_garbage_collections
from klamm.spark.sink.delivery import delivery_of
from klamm.spark.sink.sink_columns import SinkColumns
from klamm.spark.sink.sink_options import SinkOptions
from klamm.spark.source.plain_errors import without_traceback

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KlammStreamWriter"]


class KlammStreamWriter(DataSourceStreamArrowWriter):
    """Writes the rows of a query's micro-batches to topics, with the guarantees in `docs/reference/spark-sink.md`."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._delivery = delivery_of(options, columns)

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task."""
        message = self._delivery.write(iterator)
        spare_garbage_collections()
        return message

    @without_traceback
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Ends a micro-batch whose tasks have all succeeded."""
        self._delivery.commit(messages, batchId)
        spare_garbage_collections()

    @without_traceback
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Ends a micro-batch that failed."""
        self._delivery.abort(messages, batchId)
