"""Avro schemas as Spark types, and the conversion of fastavro's values to those that Arrow takes. No I/O.

The mapping is that of Spark's `from_avro`, with one difference: decimals of more than 38 digits are strings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from klamm.pipelines.decoders.avro_forms import Member, has_members, is_decimal
from klamm.pipelines.decoders.decoder import DecoderError
from klamm.pipelines.decoders.python_decoding import BadRecord

__all__ = ["AvroColumns", "avro_columns"]

Convert = Callable[[Any], Any]
"""Returns a value for Arrow. None in place of a function: the value is good as it is."""

_PRIMITIVES: Final[dict[str, DataType]] = {
    "null": StringType(),
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
_DIGITS: Final = 38
_UUID_BYTES: Final = 16
_MOST_MICROSECONDS: Final = 2**63 - 1


@dataclass(frozen=True)
class AvroColumns:
    """The columns of a reader schema."""

    schema: StructType
    convert: Convert | None


def avro_columns(schema: Any) -> AvroColumns:
    """Returns the columns of a schema that `fastavro.parse_schema` made.

    A schema that is no record has one column, `value`. Raises `DecoderError` for a recursive schema, and for names that
    Spark can't tell apart.
    """
    mapping = _Mapping()
    data_type, convert = mapping.of(schema, "")
    if isinstance(data_type, StructType) and isinstance(schema, dict) and schema.get("type") == "record":
        return AvroColumns(data_type, convert)
    inner = convert
    wrap: Convert = (lambda value: {"value": value}) if inner is None else (lambda value: {"value": inner(value)})
    return AvroColumns(StructType([StructField("value", data_type)]), wrap)


class _Mapping:
    """The walk through one schema; knows the named types that it has met."""

    def __init__(self) -> None:
        self._named: dict[str, Any] = {}
        self._open: list[str] = []

    def of(self, schema: Any, path: str) -> tuple[DataType, Convert | None]:  # noqa: PLR0911 - one case a line
        if isinstance(schema, list):
            return self._union(schema, path)
        if isinstance(schema, str) and schema not in _PRIMITIVES:
            return self.of(self._named[schema], path)
        node = {"type": schema} if isinstance(schema, str) else schema
        kind = node["type"]
        if not isinstance(kind, str):
            return self.of(kind, path)
        if kind in {"record", "error"}:
            return self._record(node, path)
        if kind in {"enum", "fixed"}:
            self._named[node["name"]] = node
        if kind == "array":
            element, convert = self.of(node["items"], f"{path}[]")
            return ArrayType(element), _each(convert)
        if kind == "map":
            value, convert = self.of(node["values"], f"{path}{{}}")
            return MapType(StringType(), value), _each_value(convert)
        if kind not in _PRIMITIVES:
            return self.of(kind, path)
        return _logical(node) or (_PRIMITIVES[kind], None)

    def _record(self, node: Mapping[str, Any], path: str) -> tuple[DataType, Convert | None]:
        name = node["name"]
        if name in self._open:
            raise DecoderError(
                f"the Avro record {name} contains itself (at {path or name}), but Spark has no recursive types. "
                "Read with a schema that leaves this field out"
            )
        self._named[name] = node
        self._open.append(name)
        fields: list[StructField] = []
        converts: list[tuple[str, Convert]] = []
        for inner in node["fields"]:
            data_type, convert = self.of(inner["type"], f"{path}.{inner['name']}" if path else inner["name"])
            fields.append(StructField(inner["name"], data_type))
            if convert is not None:
                converts.append((inner["name"], convert))
        self._open.pop()
        _refuse_equal_names([field.name for field in fields], f"the Avro record {name}")
        if not fields:
            # Files have no struct without fields; the column says whether there is a record.
            return BooleanType(), lambda value: None if value is None else True
        return StructType(fields), _each_field(converts)

    def _union(self, branches: Sequence[Any], path: str) -> tuple[DataType, Convert | None]:
        present = [branch for branch in branches if branch != "null"]
        if len(present) <= 1:
            data_type, convert = self.of(present[0] if present else "null", path)
            return data_type, None if convert is None else _nullable(convert)
        if not has_members(branches):
            return LongType() if "long" in present else DoubleType(), None
        members = [self.of(branch, f"{path}.member{at}") for at, branch in enumerate(present)]
        fields = [StructField(f"member{at}", data_type) for at, (data_type, _) in enumerate(members)]
        return StructType(fields), _of_members([convert for _, convert in members])


def _of_members(converts: Sequence[Convert | None]) -> Convert:
    """Returns the conversion of a union of several types to a struct with a member for each."""

    def struct(value: Member | None) -> dict[str, Any] | None:
        if value is None:
            return None
        convert = converts[value.number]
        return {f"member{value.number}": value.value if convert is None else convert(value.value)}

    return struct


def _logical(  # noqa: PLR0911 - one case a line
    node: Mapping[str, Any],
) -> tuple[DataType, Convert | None] | None:
    """Returns the type of a logical type; None if the node has none, or one that is read as its plain type."""
    match node.get("logicalType"), node["type"]:
        case "decimal", _ if is_decimal(node):
            return _decimal(int(node["precision"]), int(node.get("scale", 0)))
        case "date", "int":
            return DateType(), None
        case ("timestamp-millis" | "local-timestamp-millis") as name, "long":
            return _time(name), _from_milliseconds
        case ("timestamp-micros" | "local-timestamp-micros") as name, "long":
            return _time(name), None
        case ("timestamp-nanos" | "local-timestamp-nanos") as name, "long":
            return _time(name), lambda nanoseconds: nanoseconds // 1000
        case "uuid", "fixed" if node["size"] == _UUID_BYTES:
            return StringType(), lambda value: str(UUID(bytes=value))
        case _:
            return None


def _time(logical_type: str) -> DataType:
    return TimestampNTZType() if logical_type.startswith("local-") else TimestampType()


def _decimal(precision: int, scale: int) -> tuple[DataType, Convert | None]:
    if precision <= _DIGITS:
        return DecimalType(precision, scale), None
    return StringType(), lambda value: format(value, "f")


def _from_milliseconds(milliseconds: int) -> int:
    microseconds = milliseconds * 1000
    if abs(microseconds) > _MOST_MICROSECONDS:
        raise BadRecord(f"the time {milliseconds} ms is outside the range of Spark")
    return microseconds


def _nullable(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _each(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda values: [convert(value) for value in values]


def _each_value(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda values: {name: convert(value) for name, value in values.items()}


def _each_field(converts: Sequence[tuple[str, Convert]]) -> Convert | None:
    if not converts:
        return None

    def fields(record: dict[str, Any]) -> dict[str, Any]:
        record = record.copy()  # a default is one object for all records
        for name, convert in converts:
            record[name] = convert(record[name])
        return record

    return fields


def _refuse_equal_names(names: Sequence[str], owner: str) -> None:
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise DecoderError(f"{owner} has the fields {other} and {name}, which are one name for Spark")
