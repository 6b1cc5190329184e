"""`format("klamm")`: the entry point for Spark.

Spark requests the schema in a separate process, which needs neither readers nor pyarrow. These are imported only when a
reader is created, which halves the start time of that process. The same applies to writers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from klamm.spark.frozen_objects import spare_garbage_collections
from klamm.spark.source.errors import OptionError
from klamm.spark.source.options.options import SourceOptions
from klamm.spark.source.plain_errors import without_traceback
from klamm.spark.source.schema import spark_schema
from klamm.spark.worker_daemon import end_quietly

if TYPE_CHECKING:
    from klamm.spark.sink.batch_writer import KlammBatchWriter
    from klamm.spark.sink.stream_writer import KlammStreamWriter
    from klamm.spark.source.batch_reader import KlammBatchReader
    from klamm.spark.source.stream_reader import KlammStreamReader

__all__ = ["KlammDataSource"]

end_quietly()  # every process in which Spark plans imports this module first


class KlammDataSource(DataSource):
    """The source and the sink for topics of klamm, Apache Kafka and compatible brokers, with the options and columns of
    Spark's own source and sink."""

    @classmethod
    def name(cls) -> str:
        """Returns the name for `format(…)`."""
        return "klamm"

    @without_traceback
    def schema(self) -> StructType:
        """Returns the columns. Raises `OptionError`: Spark calls this method first, so it checks the options."""
        return spark_schema(include_headers=SourceOptions.check(self.options).include_headers)

    @without_traceback
    def reader(self, schema: StructType) -> KlammBatchReader:
        """Returns the reader for `spark.read`. Raises `OptionError`."""
        from klamm.spark.source.batch_reader import FilteringBatchReader, KlammBatchReader

        options = SourceOptions.for_batch(self.options)
        _refuse_other_schema(schema, options)
        return FilteringBatchReader(options) if options.klamm.filter_pushdown else KlammBatchReader(options)

    # Keeps its traceback: after an error Spark 4.3 stops the missing reader, and without a traceback it would show only
    # that second error.
    def streamReader(self, schema: StructType) -> KlammStreamReader:
        """Returns the reader for `spark.readStream`. Raises `OptionError`."""
        _require_read_limits()
        from klamm.spark.source.stream_reader import KlammStreamReader

        options = SourceOptions.for_stream(self.options)
        _refuse_other_schema(schema, options)
        return KlammStreamReader(options)

    @without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> KlammBatchWriter:
        """Returns the writer for `df.write`. Raises `OptionError` and `ColumnError`."""
        from klamm.spark.sink.batch_writer import KlammBatchWriter
        from klamm.spark.sink.sink_columns import SinkColumns
        from klamm.spark.sink.sink_options import SinkOptions

        if overwrite:
            raise OptionError('Save mode overwrite not allowed for Kafka: records are only added. Use mode("append")')
        options = SinkOptions.parse(self.options)
        writer = KlammBatchWriter(options, SinkColumns.of(schema, options.topic))
        spare_garbage_collections()
        return writer

    @without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> KlammStreamWriter:
        """Returns the writer for `df.writeStream`. Raises `OptionError` and `ColumnError`.

        `overwrite` is true in the output mode complete: then each micro-batch adds the whole result to the topic, as in
        Spark's own sink.
        """
        from klamm.spark.sink.sink_columns import SinkColumns
        from klamm.spark.sink.sink_options import SinkOptions
        from klamm.spark.sink.stream_writer import KlammStreamWriter

        options = SinkOptions.parse(self.options)
        writer = KlammStreamWriter(options, SinkColumns.of(schema, options.topic))
        spare_garbage_collections()
        return writer


def _require_read_limits() -> None:
    try:
        import pyspark.sql.streaming.datasource  # noqa: F401
    except ImportError:
        raise OptionError(
            "streaming reads need PySpark 4.2 or later: before, a Python source is not told where a micro-batch starts"
        ) from None


def _refuse_other_schema(schema: StructType, options: SourceOptions) -> None:
    if schema.simpleString() != spark_schema(include_headers=options.include_headers).simpleString():
        raise OptionError("Kafka source has a fixed schema and cannot be set with a custom one")
