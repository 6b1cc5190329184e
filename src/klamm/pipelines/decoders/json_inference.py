"""The schema of JSON objects, inferred from a sample. No I/O.

Every column is nullable. Where the sample disagrees, the column takes the type that holds all values, and a note says
so: whole numbers and fractions are a double, anything else that disagrees is a string, since Spark reads any JSON value
as a string. Strings stay strings: a column of times needs a schema that says so.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
)

__all__ = ["InferredSchema", "infer_schema"]

_LONG: Final = 2**63
_DECIMAL_DIGITS: Final = 38


@dataclass(frozen=True)
class InferredSchema:
    """A schema and what the user should know of it."""

    schema: StructType
    notes: tuple[str, ...]


@dataclass
class _Seen:
    """What the values at one place of the objects were."""

    kinds: Counter[str] = field(default_factory=Counter)
    fields: dict[str, _Seen] = field(default_factory=dict)
    elements: _Seen | None = None
    digits: int = 0

    def add(self, value: object) -> None:
        """Counts a value and all that is in it."""
        kind = _kind(value)
        self.kinds[kind] += 1
        if isinstance(value, dict):
            for name, inner in value.items():
                self.fields.setdefault(name, _Seen()).add(inner)
        elif isinstance(value, list):
            self.elements = self.elements or _Seen()
            for inner in value:
                self.elements.add(inner)
        elif kind == "large whole number":
            self.digits = max(self.digits, len(str(abs(int(str(value))))))


def infer_schema(values: Iterable[bytes]) -> InferredSchema | None:
    """Returns the schema of the JSON objects among the values; None if there is none."""
    seen, others, objects = _Seen(), 0, 0
    for value in values:
        parsed = _parse(value)
        if isinstance(parsed, dict):
            objects += 1
            seen.add(parsed)
        else:
            others += 1
    if not seen.fields:
        return None
    notes: list[str] = []
    if others:
        notes.append(f"{others} of {objects + others} sampled records are no JSON objects")
    return InferredSchema(_struct(seen.fields, "", notes), tuple(notes))


def _parse(value: bytes) -> object:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "whole number" if -_LONG <= value < _LONG else "large whole number"
    if isinstance(value, float):
        return "fraction"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _struct(fields: Mapping[str, _Seen], path: str, notes: list[str]) -> StructType:
    kept: dict[str, str] = {}
    for name, _ in sorted(fields.items(), key=lambda item: -sum(item[1].kinds.values())):
        other = kept.setdefault(name.lower(), name)
        if other != name:
            notes.append(
                f"{path}{name} is left out: Spark takes it for the same name as {path}{other}, which is more frequent"
            )
    return StructType(
        [StructField(name, _type(fields[name], path + name, notes)) for name in fields if kept[name.lower()] == name]
    )


def _type(seen: _Seen, path: str, notes: list[str]) -> DataType:
    kinds = set(seen.kinds) - {"null"}
    if not kinds:
        notes.append(f"{path} is a string: it is null in all sampled records")
        return StringType()
    if kinds <= {"whole number", "fraction", "large whole number"}:
        return _number(seen, kinds, path, notes)
    if len(kinds) > 1:
        found = ", ".join(f"{kind} ({seen.kinds[kind]})" for kind in sorted(kinds))
        notes.append(f"{path} is a string: the sample disagrees, {found}")
        return StringType()
    return _single(kinds.pop(), seen, path, notes)


def _number(seen: _Seen, kinds: set[str], path: str, notes: list[str]) -> DataType:
    if kinds == {"whole number"}:
        return LongType()
    if "fraction" in kinds:
        return DoubleType()
    if seen.digits <= _DECIMAL_DIGITS:
        notes.append(f"{path} is a decimal: some of its whole numbers exceed a bigint")
        return DecimalType(_DECIMAL_DIGITS, 0)
    notes.append(f"{path} is a string: some of its whole numbers have more than {_DECIMAL_DIGITS} digits")
    return StringType()


def _single(kind: str, seen: _Seen, path: str, notes: list[str]) -> DataType:
    if kind == "boolean":
        return BooleanType()
    if kind == "array":
        if seen.elements is None or not seen.elements.kinds:
            notes.append(f"{path} is an array of strings: it is empty in all sampled records")
            return ArrayType(StringType())
        return ArrayType(_type(seen.elements, f"{path}[]", notes))
    if kind == "object":
        if not seen.fields:
            notes.append(f"{path} is a string: it is an empty object in all sampled records")
            return StringType()
        return _struct(seen.fields, f"{path}.", notes)
    return StringType()
