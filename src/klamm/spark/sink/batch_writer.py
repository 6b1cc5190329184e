"""The writer of batch queries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from klamm.spark.frozen_objects import spare_garbage_collections
from klamm.spark.sink.delivery import delivery_of
from klamm.spark.sink.sink_columns import SinkColumns
from klamm.spark.sink.sink_options import SinkOptions
from klamm.spark.source.errors import OptionError
from klamm.spark.source.plain_errors import without_traceback

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KlammBatchWriter"]


class KlammBatchWriter(DataSourceArrowWriter):
    """Writes the rows of a DataFrame to topics, with the guarantees in `docs/reference/spark-sink.md`."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        if options.exactly_once is not None and options.micro_batch is None:
            raise OptionError(
                "klamm.sink.semantics=exactly-once needs a streaming query: a batch write has no checkpoint that says "
                "whether an earlier attempt has written its rows. In foreachBatch, write with klamm.spark.write_topic"
            )
        self._batch_id = None if options.micro_batch is None else options.micro_batch.batch_id
        self._delivery = delivery_of(options, columns)

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task."""
        message = self._delivery.write(iterator)
        spare_garbage_collections()
        return message

    @without_traceback
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Ends a write whose tasks have all succeeded."""
        self._delivery.commit(messages, self._batch_id)
        spare_garbage_collections()

    @without_traceback
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Ends a write that failed."""
        self._delivery.abort(messages, self._batch_id)
