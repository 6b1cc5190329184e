"""Avro records of a writer's schema, resolved to another reader schema."""

from __future__ import annotations

import datetime
import decimal
import io
import json
import uuid
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("fastavro")

import fastavro

from klamm.pipelines.decoders import avro_records
from klamm.pipelines.decoders.arrow_types import arrow_type
from klamm.pipelines.decoders.avro_records import _AvroPlan
from klamm.pipelines.decoders.avro_schemas import parse_avro
from klamm.pipelines.decoders.avro_types import avro_columns
from klamm.pipelines.decoders.python_decoding import decode_values
from klamm.pipelines.decoders.schema_registry import Registry, RegistrySchema

Resolve = Callable[..., "tuple[list[Any], list[str | None]]"]

_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
_UUID = {"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}
_TIME = {"type": "long", "logicalType": "timestamp-millis"}


def _record(name: str, *fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def _written(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


class _Schemas:
    """A registry with one schema, whatever the id."""

    def __init__(self, schema: Any) -> None:
        self._text = json.dumps(schema)

    def by_id(self, schema_id: int) -> RegistrySchema:
        return RegistrySchema(self._text, "AVRO", {}, schema_id)


@pytest.fixture
def resolve(monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Returns a function that decodes values of a writer's schema: `resolve(writer, reader, *values)`."""

    def run(writer: Any, reader: Any, *values: Any) -> tuple[list[Any], list[str | None]]:
        monkeypatch.setattr(avro_records, "schemas_of", lambda place: _Schemas(writer))
        parsed = parse_avro(json.dumps(reader))
        decode = _AvroPlan(json.dumps(parsed), Registry("http://localhost:1")).open()
        framed = [b"\0\0\0\0\1" + (value if isinstance(value, bytes) else _written(writer, value)) for value in values]
        decoded, reasons = decode_values(decode, arrow_type(avro_columns(parsed).schema), framed)
        return decoded.to_pylist(), reasons

    return run


def _set(record: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {member: inner for member, inner in value.items() if inner is not None}
        if isinstance(value, dict) and "member0" in value
        else value
        for name, value in record.items()
    }


_INNER = _record("Inner", _field("id", "int"), _field("at", _TIME))
_KIND = {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}
_CHOICE = _field("choice", ["null", "int", "string"], default=None)


@pytest.mark.parametrize(("kind", "value"), [(_INNER, {"id": 1, "at": 5}), (_KIND, "B")])
def test_a_named_type_that_was_nullable(resolve: Resolve, kind: Any, value: Any) -> None:
    """A record or enum that the writer's schema has in a union is read as a plain field of the reader schema, also next
    to a union of several types."""
    writer = _record("R", _field("f", ["null", kind]))
    (found,), reasons = resolve(writer, _record("R", _field("f", kind), _CHOICE), {"f": value})
    assert reasons == [None]
    if kind is _INNER:
        assert found["f"]["id"] == 1
    else:
        assert found == {"f": "B", "choice": None}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (_record("Paid", _field("cents", "int")), {"cents": 1}, {"member1": {"cents": 1}}),
        (_KIND, "B", {"member2": "B"}),
        ("long", 5, {"member3": 5}),
        ("float", 0.5, {"member4": 0.5}),
        ("string", "x", {"member5": "x"}),
    ],
)
def test_a_type_that_became_a_union(resolve: Resolve, kind: Any, value: Any, expected: Any) -> None:
    """A value that the writer's schema has without a union is read as the branch that Avro's rules choose."""
    free = _record("Free", _field("why", "string", default=""))
    paid = _record("Paid", _field("cents", "int"))
    reader = _record("R", _field("f", ["null", free, paid, _KIND, "long", "double", "string"]))
    (found,), reasons = resolve(_record("R", _field("f", kind)), reader, {"f": value})
    assert reasons == [None]
    assert _set(found) == {"f": expected}


def test_a_union_refers_to_a_named_type(resolve: Resolve) -> None:
    """A branch may be a named type that one of the two schemas defines elsewhere."""
    inner, other = _record("Inner", _field("id", "int")), _record("Other", _field("id", "int"))
    first = _record("R", _field("a", inner), _field("b", ["null", "Inner", other]))
    second = _record("R", _field("b", ["null", inner, other]), _field("a", "Inner"))
    value = {"a": {"id": 1}, "b": ("Inner", {"id": 2})}
    for writer, reader in ((first, second), (second, first), (first, first)):
        (found,), reasons = resolve(writer, reader, value)
        assert reasons == [None]
        assert _set(found) == {"a": {"id": 1}, "b": {"member0": {"id": 2}}}


@pytest.mark.parametrize("note", [[], [_field("note", "string", default="")]])
def test_a_number_stays_in_its_branch(resolve: Resolve, note: list[Any]) -> None:
    """A small number of the branch `long` is no int, one of `float` is no double, and neither is a date; with the
    writer's schema and with another one."""
    date = {"type": "int", "logicalType": "date"}
    kinds: dict[str, list[Any]] = {"a": ["int", "long"], "b": ["float", "double"], "c": [date, "long"]}
    writer = _record("R", *(_field(name, [*kind, "string"]) for name, kind in kinds.items()))
    reader = {**writer, "fields": [*writer["fields"], *note]}
    small = b"\x02\x0a" + b"\x00\x00\x00\x00\x3f" + b"\x02\x0a"
    (found,), reasons = resolve(writer, reader, small)
    assert reasons == [None]
    del found["a"]["member0"], found["b"]["member1"], found["c"]["member0"]
    found.pop("note", None)
    assert found == {
        "a": {"member1": 5, "member2": None},
        "b": {"member0": 0.5, "member2": None},
        "c": {"member1": 5, "member2": None},
    }


def test_a_default_is_the_same_for_each_record(resolve: Resolve) -> None:
    """Each record without the field has the default, in the type of the column."""
    reader = _record("R", _field("id", "int"), _field("inner", _INNER, default={"id": 1, "at": 1000}))
    found, reasons = resolve(_record("R", _field("id", "int")), reader, {"id": 1}, {"id": 2}, {"id": 3})
    assert reasons == [None] * 3
    second = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC)
    assert [record["inner"] for record in found] == [{"id": 1, "at": second}] * 3


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("bytes", "\u00ff\u0000", b"\xff\0"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u0080a", b"\x80a"),
        (_DECIMAL, "\u0001\u0000", decimal.Decimal("2.56")),
        ("double", 1, 1.0),
        (["int", "string"], 7, {"member0": 7, "member1": None}),
        (["null", "int", "string"], None, None),
        ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
        ({"type": "map", "values": ["int", "string"]}, {"k": "x"}, [("k", {"member0": None, "member1": "x"})]),
        (_record("P", _field("a", "int", default=3), _field("b", "bytes")), {"b": "\u00ff"}, {"a": 3, "b": b"\xff"}),
        ([_record("P", _field("a", "int")), "string"], {"a": 1}, {"member0": {"a": 1}, "member1": None}),
        (_UUID, "\0" * 15 + "\u0007", str(uuid.UUID(int=7))),
    ],
)
def test_a_default_has_the_type_of_its_field(resolve: Resolve, kind: Any, default: Any, expected: Any) -> None:
    """The default of each type is the value that a record with the field would have."""
    reader = _record("R", _field("id", "int"), _field("more", kind, default=default))
    (found,), reasons = resolve(_record("R", _field("id", "int")), reader, {"id": 1})
    assert reasons == [None]
    assert found == {"id": 1, "more": expected}


def test_a_default_of_another_type_is_none(resolve: Resolve) -> None:
    """A default that is no value of its type makes records bad that need it, not others."""
    reader = _record("R", _field("id", "int"), _field("key", _UUID, default="short"))
    _, reasons = resolve(_record("R", _field("id", "int")), reader, {"id": 1})
    assert str(reasons[0]).startswith(
        "schema id 1 can't be read with the reader schema: No default value for field key"
    )
    (found,), reasons = resolve(reader, reader, {"id": 1, "key": bytes(16)})
    assert (found["id"], reasons) == (1, [None])


@pytest.mark.parametrize("data", [b"\x01\x01\x00", b"\x06\x00", b"\x00\x01", b"\x00\x04"])
def test_a_branch_or_symbol_that_does_not_exist(resolve: Resolve, data: bytes) -> None:
    """A number of a branch or symbol that is negative or too large makes the record bad."""
    schema = _record("R", _field("f", ["null", "boolean"]), _field("kind", _KIND))
    found, reasons = resolve(schema, schema, data)
    assert found == [None]
    assert str(reasons[0]).startswith("the value is no Avro of schema id 1: IndexError")


def test_a_logical_type_that_does_not_fit_is_ignored(resolve: Resolve) -> None:
    """A decimal without precision is bytes, and a uuid of another size is binary, as Avro demands."""
    schema = _record(
        "R",
        _field("a", {"type": "bytes", "logicalType": "decimal"}),
        _field("b", {"type": "fixed", "name": "F", "size": 2, "logicalType": "uuid"}),
    )
    assert resolve(schema, schema, b"\x02x" + b"yz") == ([{"a": b"x", "b": b"yz"}], [None])


@pytest.mark.parametrize("note", [[], [_field("note", "string", default="")]])
def test_decimals_in_a_union(resolve: Resolve, note: list[Any]) -> None:
    """Two decimals of a union differ by their types; with the writer's schema and with another one."""
    fixed = {"type": "fixed", "name": "D", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 1}
    writer = _record("R", _field("f", [_DECIMAL, fixed]), _field("g", ["null", _DECIMAL, "string"]))
    reader = {**writer, "fields": [*writer["fields"], *note]}
    (found,), reasons = resolve(writer, reader, b"\x02\x00\x7b" + b"\x02\x02\x7b")
    assert reasons == [None]
    found.pop("note", None)
    assert found == {
        "f": {"member0": None, "member1": decimal.Decimal("12.3")},
        "g": {"member0": decimal.Decimal("1.23"), "member1": None},
    }


def test_schemas_that_are_unions_or_bytes(resolve: Resolve) -> None:
    """A whole schema may be a union of records, or `bytes`, which serializers write without a length."""
    paid, free = _record("Paid", _field("cents", "int"), _CHOICE), _record("Free", _field("why", "string"))
    value = {"cents": 1, "choice": 5}
    assert resolve([free, paid], paid, b"\x02" + _written(paid, value)) == (
        [{"cents": 1, "choice": {"member0": 5, "member1": None}}],
        [None],
    )
    (found,), reasons = resolve(paid, [free, paid], value)
    assert reasons == [None]
    assert found["value"]["member1"]["cents"] == 1
    assert resolve({"type": "bytes"}, {"type": "bytes"}, b"\x08x") == ([{"value": b"\x08x"}], [None])
    _, reasons = resolve([free, paid], free, b"\x02" + _written(paid, value))
    assert str(reasons[0]).startswith("schema id 1 can't be read with the reader schema")


@pytest.mark.parametrize("kind", ["string", {"type": "array", "items": "int"}, ["int", "string"]])
def test_a_default_of_the_writer_does_not_count(resolve: Resolve, kind: Any) -> None:
    """A default in the writer's schema that is not of its type, which older Avro of Java took, harms nothing."""
    value = {"id": 1, "f": [] if isinstance(kind, dict) else "x"}
    inner = _record("Inner", _field("id", "int"), _field("f", kind, default=None))
    writer = _record("R", _field("inner", inner))
    data = _written(
        _record("R", _field("inner", _record("Inner", _field("id", "int"), _field("f", kind)))), {"inner": value}
    )
    reader = _record("R", _field("inner", _record("Inner", _field("id", "int"))))
    assert resolve(writer, reader, data) == ([{"inner": {"id": 1}}], [None])


_LONG_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 2}
_FIXED = {"type": "fixed", "name": "D", "size": 2}
_FIXED_DECIMAL = {**_FIXED, "logicalType": "decimal", "precision": 4, "scale": 2}


@pytest.mark.parametrize(
    ("writer", "reader", "value", "expected"),
    [
        ("bytes", _DECIMAL, b"\1\0", decimal.Decimal("2.56")),
        (_DECIMAL, "bytes", decimal.Decimal("2.56"), b"\1\0"),
        ("bytes", _LONG_DECIMAL, b"\1\0", "2.56"),
        (_FIXED, _FIXED_DECIMAL, b"\1\0", decimal.Decimal("2.56")),
        (_FIXED_DECIMAL, _FIXED, decimal.Decimal("2.56"), b"\1\0"),
        ("bytes", ["null", _DECIMAL, "string"], b"\1\0", {"member0": decimal.Decimal("2.56"), "member1": None}),
        (_DECIMAL, {**_DECIMAL, "scale": 3, "precision": 6}, decimal.Decimal("2.56"), decimal.Decimal("2.560")),
        (["null", "bytes"], ["null", _DECIMAL], b"\1\0", decimal.Decimal("2.56")),
    ],
)
def test_decimals_and_bytes(resolve: Resolve, writer: Any, reader: Any, value: Any, expected: Any) -> None:
    """The bytes of a writer are a decimal if the reader schema says so, and those of a writer's decimal are bytes."""
    found = resolve(_record("R", _field("f", writer)), _record("R", _field("f", reader)), {"f": value})
    assert found == ([{"f": expected}], [None])
