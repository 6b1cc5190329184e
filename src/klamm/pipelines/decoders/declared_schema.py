"""Schemas of Spark as a declaration gives them: a string or a `StructType`."""

from __future__ import annotations

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from klamm.pipelines.decoders.decoder import DecoderError

__all__ = ["as_nullable", "parse_schema"]


def parse_schema(schema: str | StructType, decoder: str) -> StructType:
    """Returns the schema; parses a string with Spark's parser. Raises `DecoderError` if it can't be columns."""
    if isinstance(schema, str):
        try:
            parsed = StructType.fromDDL(schema)
        except PySparkException as error:
            first = (error.getMessage() or str(error)).strip().splitlines()[0]
            raise DecoderError(f"{decoder}({schema!r}): not a schema of Spark: {first}") from None
    else:
        parsed = schema
    if not isinstance(parsed, StructType) or not parsed.fields:
        raise DecoderError(f'{decoder}({schema!r}): a schema names columns and types, such as "name string, size int"')
    _refuse_equal_names(parsed, decoder)
    return parsed


def as_nullable(schema: StructType) -> StructType:
    """Returns the schema with all fields, elements and values nullable."""
    return StructType([StructField(field.name, _nullable(field.dataType), True) for field in schema.fields])


def _nullable(data_type: DataType) -> DataType:
    if isinstance(data_type, StructType):
        return as_nullable(data_type)
    if isinstance(data_type, ArrayType):
        return ArrayType(_nullable(data_type.elementType), True)
    if isinstance(data_type, MapType):
        return MapType(data_type.keyType, _nullable(data_type.valueType), True)
    return data_type


def _refuse_equal_names(schema: StructType, decoder: str) -> None:
    names: dict[str, str] = {}
    for name in schema.fieldNames():
        other = names.setdefault(name.lower(), name)
        if other is not name:
            raise DecoderError(
                f"{decoder}: the columns {other} and {name} have the same name for Spark; keep one of them"
            )
