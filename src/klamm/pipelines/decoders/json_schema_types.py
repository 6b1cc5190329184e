"""JSON Schema as Spark types. No I/O.

What has no type of its own in Spark (a choice of several types, any value, a part that contains itself) is a string
with the JSON text: Spark reads any JSON value as a string.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from klamm.pipelines.decoders.decoder import DecoderError

__all__ = ["json_schema_columns"]

_TEXT: Final = StringType()
_SIMPLE: Final[dict[str, DataType]] = {
    "boolean": BooleanType(),
    "integer": LongType(),
    "null": _TEXT,
    "number": DoubleType(),
    "string": StringType(),
}
_FORMATS: Final[dict[str, DataType]] = {"date-time": TimestampType(), "date": DateType()}
_KINDS: Final[dict[type, str]] = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "array",
    str: "string",
    type(None): "null",
}


def json_schema_columns(schema: Any, references: Mapping[str, Any]) -> tuple[StructType, tuple[str, ...]]:
    """Returns the columns of the objects that a JSON Schema describes, and notes on columns that are JSON text.

    Required properties that can't be null are NOT NULL. `references` are the other schemas that it refers to, by name.
    Raises `DecoderError` if it describes no objects with properties, or refers to what is not there.
    """
    walk = _Walk(schema, references)
    data_type, _ = walk.of(schema, "", schema)
    if not isinstance(data_type, StructType):
        raise DecoderError("the JSON Schema describes no objects with properties, so it has no columns")
    return data_type, tuple(walk.notes)


class _Walk:
    """The walk through one schema."""

    def __init__(self, root: Any, references: Mapping[str, Any]) -> None:
        self._root = root
        self._references = references
        self._open: list[int] = []
        self.notes: list[str] = []

    def of(self, schema: Any, path: str, document: Any) -> tuple[DataType, bool]:
        """Returns the type and whether a value may be null."""
        if not isinstance(schema, dict):
            return _TEXT, True
        if id(schema) in self._open:
            self.notes.append(f"{path} is JSON text: its schema contains itself")
            return _TEXT, True
        self._open.append(id(schema))
        try:
            return self._of_object(schema, path, document)
        finally:
            self._open.pop()

    def _of_object(self, schema: Mapping[str, Any], path: str, document: Any) -> tuple[DataType, bool]:
        if "$ref" in schema:
            found, other = self._referred(schema["$ref"], document)
            return self.of(found, path, other)
        if "properties" not in schema and (choices := schema.get("anyOf") or schema.get("oneOf")):
            return self._choice(choices, path, document)
        if "allOf" in schema:
            own = {name: part for name, part in schema.items() if name != "allOf"}
            has_columns = "properties" in own or own.get("type", "object") != "object"
            return self._all_of([*schema["allOf"], *([own] if has_columns else [])], path, document)
        kinds = _kinds_of(schema)
        present = [kind for kind in kinds if kind != "null"]
        can_be_null = len(present) < len(kinds) or not kinds
        if set(present) == {"integer", "number"}:
            present = ["number"]
        if len(present) != 1:
            if present:
                self.notes.append(f"{path} is JSON text: it may be {' or '.join(present)}")
            return _TEXT, can_be_null
        return self._single(present[0], schema, path, document), can_be_null

    def _single(self, kind: str, schema: Mapping[str, Any], path: str, document: Any) -> DataType:
        if kind == "object":
            return self._object(schema, path, document)
        if kind == "array":
            items = schema.get("items")
            element, _ = self.of(items, f"{path}[]", document) if isinstance(items, dict) else (_TEXT, True)
            return ArrayType(element)
        if kind == "string":
            return _FORMATS.get(str(schema.get("format")), _TEXT)
        if kind not in _SIMPLE:
            raise DecoderError(f"the JSON Schema has the type {kind!r} (at {path}), which does not exist")
        return _SIMPLE[kind]

    def _object(self, schema: Mapping[str, Any], path: str, document: Any) -> DataType:
        properties = schema.get("properties") or {}
        required = set(schema.get("required") or ())
        if not properties:
            values = schema.get("additionalProperties")
            if not isinstance(values, dict):
                self.notes.append(f"{path or 'the record'} is JSON text: its properties are not named")
                return _TEXT
            return MapType(StringType(), self.of(values, f"{path}{{}}", document)[0])
        fields = []
        seen: dict[str, str] = {}
        for name, each in properties.items():
            if (other := seen.setdefault(name.lower(), name)) != name:
                raise DecoderError(
                    f"the JSON Schema has the properties {other} and {name}, which are one name for Spark"
                )
            data_type, can_be_null = self.of(each, f"{path}.{name}" if path else name, document)
            fields.append(StructField(name, data_type, can_be_null or name not in required))
        return StructType(fields)

    def _choice(self, choices: Sequence[Any], path: str, document: Any) -> tuple[DataType, bool]:
        types = [self.of(choice, path, document) for choice in choices if choice != {"type": "null"}]
        can_be_null = len(types) < len(choices) or any(nullable for _, nullable in types)
        if types and all(data_type == types[0][0] for data_type, _ in types):
            return types[0][0], can_be_null
        self.notes.append(f"{path} is JSON text: it is a choice of {len(types)} types")
        return _TEXT, can_be_null

    def _all_of(self, parts: Sequence[Any], path: str, document: Any) -> tuple[DataType, bool]:
        types = [self.of(part, path, document) for part in parts]
        structs = [data_type for data_type, _ in types if isinstance(data_type, StructType)]
        can_be_null = all(nullable for _, nullable in types)
        if structs:
            fields = {field.name: field for struct in structs for field in struct.fields}
            return StructType(list(fields.values())), can_be_null
        return next((data_type for data_type, _ in types if data_type != _TEXT), _TEXT), can_be_null

    def _referred(self, reference: str, document: Any) -> tuple[Any, Any]:
        """Returns what a `$ref` names, and the document in which it stands."""
        name, _, pointer = reference.partition("#")
        if name:
            document = self._references.get(name) or self._references.get(name.rpartition("/")[2])
        found = document
        try:
            for step in filter(None, pointer.split("/")):
                key = unquote(step).replace("~1", "/").replace("~0", "~")
                found = found[int(key)] if isinstance(found, list) else found[key]
        except (KeyError, IndexError, ValueError, TypeError):
            found = None
        if found is None:
            raise DecoderError(f"the JSON Schema refers to {json.dumps(reference)}, which is not there")
        return found, document


def _kinds_of(schema: Mapping[str, Any]) -> list[str]:
    """Returns the types that a value may have; none if the schema does not say it."""
    declared = schema.get("type")
    if isinstance(declared, str):
        return [declared]
    if isinstance(declared, list):
        return [str(kind) for kind in declared]
    if "properties" in schema:
        return ["object"]
    values = schema["enum"] if "enum" in schema else [schema["const"]] if "const" in schema else []
    return list(dict.fromkeys(_KINDS[type(value)] for value in values))
