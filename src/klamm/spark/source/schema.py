"""The columns of the source as Spark types, the same as in Spark's own Kafka source."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

__all__ = ["spark_schema"]


def spark_schema(*, include_headers: bool) -> StructType:
    """Returns the schema of the DataFrame."""
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
