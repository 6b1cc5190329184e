"""`format("klamm")`: what Spark asks first.

Spark asks for the schema in a process of its own, which needs neither readers nor pyarrow: they are imported where a
reader is made, and the process starts in half the time.
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

end_quietly()  # each process in which Spark plans imports this module first


class KlammDataSource(DataSource):
    """Topics of klamm, Apache Kafka, or whatever speaks their protocol, with the options and columns of Spark's own
    source."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(…)`."""
        return "klamm"

    @without_traceback
    def schema(self) -> StructType:
        """The columns; the first place where wrong options are refused. Raises `OptionError`."""
        return spark_schema(include_headers=SourceOptions.check(self.options).include_headers)

    @without_traceback
    def reader(self, schema: StructType) -> KlammBatchReader:
        """For `spark.read`. Raises `OptionError`."""
        from klamm.spark.source.batch_reader import FilteringBatchReader, KlammBatchReader

        options = SourceOptions.for_batch(self.options)
        _refuse_other_schema(schema, options)
        return FilteringBatchReader(options) if options.klamm.filter_pushdown else KlammBatchReader(options)

    # With its traceback: Spark 4.3 then stops the reader that it does not have, and without a traceback it would show
    # only that second error.
    def streamReader(self, schema: StructType) -> KlammStreamReader:
        """For `spark.readStream`. Raises `OptionError`."""
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
