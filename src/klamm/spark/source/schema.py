"""The columns of the source, as Arrow sees them and as Spark does: those of Spark's own Kafka source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from klamm.spark.source.columns import HEADERS_TYPE

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["arrow_schema", "spark_schema"]

_COLUMNS: Final = [
    pa.field("key", pa.binary()),
    pa.field("value", pa.binary()),
    pa.field("topic", pa.string()),
    pa.field("partition", pa.int32()),
    pa.field("offset", pa.int64()),
    pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    pa.field("timestampType", pa.int32()),
]


def arrow_schema(*, include_headers: bool) -> pa.Schema:
    """What Spark's workers hold each record batch against: it must be equal, not only alike."""
    return pa.schema([*_COLUMNS, pa.field("headers", HEADERS_TYPE)] if include_headers else _COLUMNS)


def spark_schema(*, include_headers: bool) -> StructType:
    """The schema of the DataFrame."""
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        IntegerType,
        LongType,
        StringType,
        StructField,
        StructType,
        TimestampType,
    )

    schema = (
        StructType()
        .add("key", BinaryType())
        .add("value", BinaryType())
        .add("topic", StringType())
        .add("partition", IntegerType())
        .add("offset", LongType())
        .add("timestamp", TimestampType())
        .add("timestampType", IntegerType())
    )
    if include_headers:
        header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
        schema.add("headers", ArrayType(header))
    return schema
