"""Protobuf messages as Spark types, and the conversion of messages to values that Arrow takes. No I/O.

A field that knows whether it was set (proto3 `optional`, proto2, a message, a member of a oneof) is null if it was not.
Other fields of proto3 have their default value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from klamm.pipelines.decoders.decoder import DecoderError
from klamm.pipelines.decoders.python_decoding import BadRecord

__all__ = ["has_required_fields", "message_columns"]

Convert = Callable[[Any], Any]

_SCALARS: Final[dict[int, DataType]] = {
    FieldDescriptor.TYPE_BOOL: BooleanType(),
    FieldDescriptor.TYPE_BYTES: BinaryType(),
    FieldDescriptor.TYPE_DOUBLE: DoubleType(),
    FieldDescriptor.TYPE_FIXED32: LongType(),
    FieldDescriptor.TYPE_FIXED64: DecimalType(20, 0),
    FieldDescriptor.TYPE_FLOAT: FloatType(),
    FieldDescriptor.TYPE_INT32: IntegerType(),
    FieldDescriptor.TYPE_INT64: LongType(),
    FieldDescriptor.TYPE_SFIXED32: IntegerType(),
    FieldDescriptor.TYPE_SFIXED64: LongType(),
    FieldDescriptor.TYPE_SINT32: IntegerType(),
    FieldDescriptor.TYPE_SINT64: LongType(),
    FieldDescriptor.TYPE_STRING: StringType(),
    FieldDescriptor.TYPE_UINT32: LongType(),
    FieldDescriptor.TYPE_UINT64: DecimalType(20, 0),
}
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
_AS_JSON: Final = frozenset(f"google.protobuf.{kind}" for kind in ("Struct", "Value", "ListValue"))


def message_columns(descriptor: Descriptor) -> tuple[StructType, Convert]:
    """Returns the columns of a message, and the conversion of a message to them.

    Raises `DecoderError` for a recursive message, one without fields, and names that Spark can't tell apart.
    """
    data_type, convert = _message(descriptor, "", ())
    if not isinstance(data_type, StructType):
        raise DecoderError(f"the Protobuf message {descriptor.full_name} has no columns; use a message with fields")
    return data_type, convert


def has_required_fields(descriptor: Descriptor, seen: frozenset[str] = frozenset()) -> bool:
    """Returns whether the message, or one in it, has a required field (proto2)."""
    if descriptor.full_name in seen:
        return False
    seen |= {descriptor.full_name}
    return any(
        field.is_required or (field.message_type is not None and has_required_fields(field.message_type, seen))
        for field in descriptor.fields
    )


def _message(descriptor: Descriptor, path: str, open_messages: tuple[str, ...]) -> tuple[DataType, Convert]:
    name = descriptor.full_name
    if known := _well_known(descriptor):
        return known
    if name in open_messages:
        raise DecoderError(
            f"the Protobuf message {name} contains itself (at {path}), but Spark has no recursive types. "
            "Read with a message that leaves this field out: Protobuf skips fields that it does not know"
        )
    _refuse_equal_names(descriptor)
    if not descriptor.fields:
        return BooleanType(), lambda message: True
    fields: list[StructField] = []
    readers: list[tuple[str, Convert]] = []
    for field in descriptor.fields:
        inner = f"{path}.{field.name}" if path else field.name
        data_type, read = _field(field, inner, (*open_messages, name))
        fields.append(StructField(field.name, data_type))
        readers.append((field.name, read))
    return StructType(fields), lambda message: {name: read(message) for name, read in readers}


def _field(field: FieldDescriptor, path: str, open_messages: tuple[str, ...]) -> tuple[DataType, Convert]:
    """Returns the type of a field, and the function that reads it from its message."""
    name = field.name
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        key_type, key = _value(entry.fields_by_name["key"], path, open_messages)
        value_type, value = _value(entry.fields_by_name["value"], f"{path}{{}}", open_messages)
        # Sorted, since the order of a map's entries is not defined, and the same bytes must decode to the same value.
        return MapType(key_type, value_type), lambda message: sorted(
            ((_apply(key, each), _apply(value, inner)) for each, inner in getattr(message, name).items()),
            key=lambda item: item[0],
        )
    if field.is_repeated:
        data_type, convert = _value(field, f"{path}[]", open_messages)
        return ArrayType(data_type), lambda message: [_apply(convert, each) for each in getattr(message, name)]
    data_type, convert = _value(field, path, open_messages)
    if field.has_presence:
        return data_type, lambda message: _apply(convert, getattr(message, name)) if message.HasField(name) else None
    return data_type, lambda message: _apply(convert, getattr(message, name))


def _value(field: FieldDescriptor, path: str, open_messages: tuple[str, ...]) -> tuple[DataType, Convert | None]:
    """Returns the type of one value of a field, and its conversion; None if the value is good as it is."""
    if field.message_type is not None:
        return _message(field.message_type, path, open_messages)
    if field.enum_type is not None:
        names = {value.number: value.name for value in reversed(field.enum_type.values)}
        return StringType(), lambda number: names.get(number) or str(number)
    return _SCALARS[field.type], None


def _well_known(descriptor: Descriptor) -> tuple[DataType, Convert] | None:
    name = descriptor.full_name
    if name == "google.protobuf.Timestamp":
        return TimestampType(), _microseconds
    if name == "google.protobuf.Duration":
        return DayTimeIntervalType(), _microseconds
    if name in _AS_JSON:
        return StringType(), _as_json
    if name in _WRAPPERS:
        return _SCALARS[descriptor.fields_by_name["value"].type], lambda message: message.value
    return None


def _microseconds(message: Any) -> int:
    return int(message.seconds * 1_000_000 + message.nanos // 1_000)


def _as_json(message: Any) -> str:
    try:
        return str(json_format.MessageToJson(message, indent=None, sort_keys=True, ensure_ascii=False))
    except (json_format.Error, ValueError) as error:
        raise BadRecord(f"a {message.DESCRIPTOR.full_name} can't be JSON: {error}") from None


def _apply(convert: Convert | None, value: Any) -> Any:
    return value if convert is None else convert(value)


def _refuse_equal_names(descriptor: Descriptor) -> None:
    seen: dict[str, str] = {}
    for field in descriptor.fields:
        other = seen.setdefault(field.name.lower(), field.name)
        if other != field.name:
            raise DecoderError(
                f"the Protobuf message {descriptor.full_name} has the fields {other} and {field.name}, which are one "
                "name for Spark"
            )
