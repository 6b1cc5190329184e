"""The types of Spark that decoders use, as Arrow types. No I/O."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

__all__ = ["arrow_type"]

_SIMPLE: Final[dict[type[DataType], pa.DataType]] = {
    BinaryType: pa.binary(),
    BooleanType: pa.bool_(),
    DateType: pa.date32(),
    DayTimeIntervalType: pa.duration("us"),
    DoubleType: pa.float64(),
    FloatType: pa.float32(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    StringType: pa.string(),
    TimestampNTZType: pa.timestamp("us"),
    TimestampType: pa.timestamp("us", tz="UTC"),
}


def arrow_type(data_type: DataType) -> pa.DataType:
    """Returns the Arrow type in which Spark takes the values of a column; all fields are nullable."""
    if isinstance(data_type, StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in data_type.fields])
    if isinstance(data_type, ArrayType):
        return pa.list_(pa.field("element", arrow_type(data_type.elementType)))
    if isinstance(data_type, MapType):
        return pa.map_(arrow_type(data_type.keyType), arrow_type(data_type.valueType))
    if isinstance(data_type, DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    return _SIMPLE[type(data_type)]
