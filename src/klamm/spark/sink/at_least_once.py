"""The delivery `at-least-once`: each task writes its rows, and the driver has nothing to do after the tasks. The
driver's process that commits a micro-batch imports this module, but not pyarrow and not the producer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import WriterCommitMessage

from klamm.errors import KlammError
from klamm.spark.sink.errors import WriteFailed, require_all_messages
from klamm.spark.sink.sink_columns import SinkColumns
from klamm.spark.sink.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AtLeastOnce"]


class AtLeastOnce:
    """Writes rows when Spark hands them over. The records of a task that fails later stay in their topics."""

    def __init__(self, options: SinkOptions, columns: SinkColumns) -> None:
        self._options = options
        self._columns = columns

    def write(self, tables: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task; returns when the brokers have acknowledged all of them."""
        try:
            self._write(tables)
        except KlammError as error:
            micro_batch = self._options.micro_batch
            if micro_batch is None:
                raise
            raise WriteFailed(
                f"micro-batch {micro_batch.batch_id} of the query {micro_batch.query_id}: {error}"
            ) from error
        return WriterCommitMessage()

    def _write(self, tables: Iterator[pa.RecordBatch]) -> None:
        from klamm.spark.sink.row_sender import RowSender
        from klamm.spark.sink.shared_producers import borrow_producer
        from klamm.spark.sink.topic_rows import divide_by_topic

        options = self._options
        with borrow_producer(options.producer) as borrowed:
            sender = RowSender(borrowed, options)
            for table in tables:
                for rows in divide_by_topic(table, self._columns, options.topic):
                    sender.send(rows)
            sender.finish()

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        """Does nothing if all tasks have written: the records are in their topics. Raises `WriteFailed` otherwise."""
        require_all_messages(messages, batch_id)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        """Does nothing: records can't be taken back. Spark reports why the write failed."""
