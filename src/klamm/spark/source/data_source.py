"""`format("klamm")`: the entry point for Spark.

Spark requests the schema in a separate process, which needs neither readers nor pyarrow. These are imported only when a
reader is created, which halves the start time of that process.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from klamm.spark.source.errors import OptionError, ReadOnlySource
from klamm.spark.source.options import SourceOptions
from klamm.spark.source.plain_errors import without_traceback
from klamm.spark.source.schema import spark_schema
from klamm.spark.worker_daemon import end_quietly

if TYPE_CHECKING:
    from klamm.spark.source.batch_reader import KlammBatchReader
    from klamm.spark.source.stream_reader import KlammStreamReader

__all__ = ["KlammDataSource"]

_ONLY_READS: Final = (
    'format("klamm") only reads. To write to topics, use Spark\'s own connector, format("kafka"), which is a jar, or a '
    "Kafka client in foreachPartition or foreachBatch."
)

end_quietly()  # every process in which Spark plans imports this module first


class KlammDataSource(DataSource):
    """The source for topics of klamm, Apache Kafka and compatible brokers, with the options and columns of Spark's own
    source."""

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
        from klamm.spark.source.stream_reader import KlammStreamReader

        options = SourceOptions.for_stream(self.options)
        _refuse_other_schema(schema, options)
        return KlammStreamReader(options)

    @without_traceback
    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Raises `ReadOnlySource`."""
        raise ReadOnlySource(_ONLY_READS)

    @without_traceback
    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        """Raises `ReadOnlySource`."""
        raise ReadOnlySource(_ONLY_READS)


def _refuse_other_schema(schema: StructType, options: SourceOptions) -> None:
    if schema.simpleString() != spark_schema(include_headers=options.include_headers).simpleString():
        raise OptionError("Kafka source has a fixed schema and cannot be set with a custom one")
