"""The forms of Avro schemas with which fastavro reads. No I/O.

A form differs from its schema in five ways:

- Named types stand in full where they are used: fastavro does not find the name of a union's branch otherwise.
- There are no logical types except decimals. fastavro turns dates and times into Python objects, which costs time and
  fails outside of Python's years 1 to 9999; Arrow takes the plain numbers. The reader schema says whether bytes are a
  decimal, and klamm's own logical type (below) does what it says; fastavro would look at the writer's schema only.
- Defaults are values as fastavro reads them. It returns a default as it stands in the schema: bytes as a string.
- The branches of a union of several types have numbers. A logical type of klamm's own puts the number next to the
  value, since a value does not say whether it was an int or a long, or of which record it is.
- A negative number of a branch or symbol is an error; fastavro counts it from the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from fastavro.read import LOGICAL_READERS

from klamm.pipelines.decoders.avro_schemas import without_defaults
from klamm.pipelines.decoders.decoder import DecoderError

__all__ = ["AvroForms", "Member", "has_members", "is_decimal"]

_NAMED: Final = frozenset({"record", "error", "enum", "fixed"})
_NUMBER: Final = "klamm-number"
_DECIMAL: Final = "klamm-decimal"
_NUMBERED: Final = "klamm-numbered"
_MERGED: Final = ({"int", "long"}, {"float", "double"})
_READ_AS: Final[dict[str, frozenset[str]]] = {
    "int": frozenset({"int", "long", "float", "double"}),
    "long": frozenset({"long", "float", "double"}),
    "float": frozenset({"float", "double"}),
    "string": frozenset({"string", "bytes"}),
    "bytes": frozenset({"bytes", "string"}),
}
"""The types of a reader as which values of a writer's type can be read, if these are more than the type itself."""
_TYPES_OF_JSON: Final[dict[type, frozenset[str]]] = {
    type(None): frozenset({"null"}),
    bool: frozenset({"boolean"}),
    int: frozenset({"int", "long", "float", "double"}),
    float: frozenset({"float", "double"}),
    str: frozenset({"string", "bytes", "enum", "fixed"}),
    list: frozenset({"array"}),
    dict: frozenset({"record", "error", "map"}),
}
_MOST_TYPES: Final = 100_000
_BEYOND_ALL_NUMBERS: Final = 2**62
# Marks of fastavro for a schema that it does not parse again.
_PARSED: Final[dict[str, Any]] = {"__fastavro_parsed": True, "__named_schemas": {}}


class Member(NamedTuple):
    """A value of a union of several types, with the number of its type; null has no number."""

    number: int
    value: Any


class _Numbered(list[Any]):
    """The branches of a union, or the symbols of an enum, which a negative number does not reach.

    fastavro adds the length to a negative number, as Python does, and would read -1 as the last branch or symbol.
    """

    def __len__(self) -> int:
        return _BEYOND_ALL_NUMBERS


class AvroForms:
    """The form of a reader schema, and those of writers' schemas that are resolved to it."""

    def __init__(self, schema: Any) -> None:
        """Takes a schema as `parse_avro` returns it, without recursion. Raises `DecoderError` if it is too large."""
        walk = _Walk(None)
        self._schema = without_defaults(schema)
        self.reader: Any = _marked(walk.of(schema))
        self._members = frozenset(walk.members)

    def of_writer(self, schema: Any) -> Any:
        """Returns the form of a writer's schema, as `parse_avro` makes it. Raises `DecoderError` if it is too large."""
        return self.reader if schema == self._schema else _marked(_Walk(self._members).of(schema))


def has_members(union: Sequence[Any]) -> bool:
    """Returns whether a union has several types next to null that no single type of Spark holds."""
    present = [branch for branch in union if branch != "null"]
    kinds = {branch if isinstance(branch, str) else None for branch in present}
    return len(present) > 1 and kinds not in _MERGED


def is_decimal(schema: Mapping[str, Any]) -> bool:
    """Returns whether a type is a decimal. One without precision is read as its plain type, as Avro demands."""
    return (
        schema.get("logicalType") == "decimal"
        and schema["type"] in {"bytes", "fixed"}
        and bool(schema.get("precision"))
    )


class _Walk:
    """The walk through one schema."""

    def __init__(self, members: frozenset[str] | None) -> None:
        """Takes the types in the reader's unions and of its decimals; None for the walk through the reader schema."""
        self._members = members
        self._named: dict[str, Any] = {}
        self._left = _MOST_TYPES
        self.members: set[str] = set()

    def of(self, schema: Any) -> Any:
        """Returns the form of a schema."""
        self._left -= 1
        if self._left < 0:
            raise DecoderError(f"the Avro schema has more than {_MOST_TYPES} types when it is written out")
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            return self.of(self._named[schema]) if schema in self._named else self._with_mark({"type": schema})
        if schema["type"] in _NAMED:
            self._named[schema["name"]] = schema
        return self._with_mark(self._node(schema))

    def _node(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        kept = ("type", "name", "aliases", "symbols", "size", "default") if schema["type"] in _NAMED else ("type",)
        form = {key: schema[key] for key in kept if key in schema}
        if schema["type"] == "enum":
            form["symbols"] = _Numbered(schema["symbols"])
        if is_decimal(schema):
            form |= {key: schema[key] for key in ("logicalType", "precision", "scale") if key in schema}
            self.members.add(form["type"])
        if "fields" in schema and schema["type"] in _NAMED:
            form["fields"] = [self._field(field) for field in schema["fields"]]
        if (key := {"array": "items", "map": "values"}.get(schema["type"])) is not None:
            form[key] = self.of(schema[key])
        return form

    def _field(self, field: Mapping[str, Any]) -> dict[str, Any]:
        form = {"name": field["name"], "type": self.of(field["type"])}
        if "aliases" in field:
            form["aliases"] = field["aliases"]
        if "default" in field and self._members is None:
            # A default that does not fit its type is none: a record that needs it is bad.
            with suppress(AttributeError, LookupError, TypeError, ValueError):
                form["default"] = _default(field["default"], form["type"])
        return form

    def _union(self, union: Sequence[Any]) -> list[Any]:
        forms = _Numbered(self.of(branch) for branch in union)
        if self._members is not None or not has_members(union):
            return forms
        number = 0
        for at, branch in enumerate(union):
            if branch != "null":
                form = {"type": forms[at]} if isinstance(forms[at], str) else forms[at]
                self.members.add(form["type"])
                forms[at] = {**_numbered(form), _NUMBER: number}
                number += 1
        return forms

    def _with_mark(self, form: dict[str, Any]) -> Any:
        """Returns the form; that of a writer's type which the reader may have in a union asks for the number.

        Bytes and decimals have the same type. The reader schema says which of them a value is.
        """
        if self._members is not None and (
            "logicalType" in form or _READ_AS.get(form["type"], frozenset({form["type"]})) & self._members
        ):
            return _numbered(form)
        return form["type"] if len(form) == 1 else form


def _numbered(form: Mapping[str, Any]) -> dict[str, Any]:
    mark = {_DECIMAL: True} if form.get("logicalType") == "decimal" else {}
    return {**form, **mark, "logicalType": _NUMBERED}


def _with_number(value: Any, writer: Any, reader: Any = None) -> Any:
    """Returns a value that fastavro has read, with the number of the reader's branch if that has one."""
    if reader is None:  # the two schemas are the same
        reader = writer
    node: Any = {"type": reader} if isinstance(reader, str) else reader
    if node["type"] != writer["type"]:
        value = _promoted(value, node["type"])
    if _DECIMAL in node or node.get("logicalType") == "decimal":
        value = LOGICAL_READERS["bytes-decimal"](value, writer if _DECIMAL in writer else node, None)
    number = node.get(_NUMBER)
    return value if number is None else Member(number, value)


def _promoted(value: Any, kind: str) -> Any:
    """Returns the value as one of another type; fastavro does not do so for values with a logical type."""
    if kind in {"float", "double"}:
        return float(value)
    if kind == "bytes" and isinstance(value, str):
        return value.encode()
    return value.decode() if kind == "string" and isinstance(value, bytes) else value


def _default(value: Any, form: Any) -> Any:
    """Returns the value that a reader gets for a field's default. Raises several kinds of errors for a wrong one."""
    if isinstance(form, list):
        fitting = [branch for branch in form if _kind(branch) in _TYPES_OF_JSON[type(value)]]
        return _default(value, fitting[0])
    node: Any = {"type": form} if isinstance(form, str) else form
    number = node.get(_NUMBER)
    found = _plain_default(value, node)
    return found if number is None else Member(number, found)


def _plain_default(value: Any, node: Any) -> Any:
    if node["type"] not in _TYPES_OF_JSON[type(value)]:
        raise TypeError("a default of another type")
    match node["type"]:
        case "bytes" | "fixed":
            data = value.encode("latin-1")
            if node.get("size", len(data)) != len(data):
                raise ValueError("a default of another size")
            is_number = _DECIMAL in node or node.get("logicalType") == "decimal"
            return LOGICAL_READERS["bytes-decimal"](data, node, None) if is_number else data
        case "float" | "double":
            return float(value)
        case "array":
            return [_default(each, node["items"]) for each in value]
        case "map":
            return {name: _default(each, node["values"]) for name, each in value.items()}
        case "record" | "error":
            return {
                field["name"]: _default(value[field["name"]], field["type"])
                if field["name"] in value
                else field["default"]
                for field in node["fields"]
            }
        case _:
            return value


def _kind(form: Any) -> str:
    kind: str = form if isinstance(form, str) else form["type"]
    return kind


def _marked(form: Any) -> Any:
    if isinstance(form, list):
        return [_marked(branch) for branch in form]
    return form if isinstance(form, str) else {**form, **_PARSED}


for _type in ("boolean", "bytes", "double", "float", "int", "long", "string", "array", "map", *_NAMED):
    LOGICAL_READERS[f"{_type}-{_NUMBERED}"] = _with_number
