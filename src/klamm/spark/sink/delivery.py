"""The delivery of rows: the work of the tasks of a write, and the work of the driver after them.

`klamm.sink.semantics` chooses the delivery. A delivery is pickled for the workers, and each commit or abort of a stream
gets a copy of its own, so a delivery keeps no state between calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from klamm.spark.sink.at_least_once import AtLeastOnce
from klamm.spark.sink.sink_columns import SinkColumns
from klamm.spark.sink.sink_options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import WriterCommitMessage

__all__ = ["Delivery", "delivery_of"]


class Delivery(Protocol):
    """Brings the rows of a write to their topics."""

    def write(self, tables: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes the rows of one task, in a worker; returns what `commit` needs of the task.

        Raises `RowRefused` for a row that can't become a record, and the producer's errors.
        """

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        """Ends a write whose tasks have all succeeded, on the driver. `batch_id` is the micro-batch's id; None in a
        batch write outside of `foreachBatch`.

        Spark may repeat a micro-batch after a crash, with the same id and other messages.
        """

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int | None) -> None:
        """Ends a write that failed, on the driver. A failed task has None for its message.

        Spark also calls this after a `commit` that raised.
        """


def delivery_of(options: SinkOptions, columns: SinkColumns) -> Delivery:
    """Returns the delivery that the options choose. Raises `OptionError`."""
    if options.exactly_once is None:
        return AtLeastOnce(options, columns)
    from klamm.spark.sink.exactly_once import ExactlyOnce

    return ExactlyOnce(options, columns)
