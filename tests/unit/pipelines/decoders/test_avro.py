"""Avro without a registry: columns, values and reasons."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")
pytest.importorskip("fastavro")

import fastavro
from tests.unit.pipelines.decoders.avro_examples import Example, examples

from klamm.pipelines.decoders.arrow_types import arrow_type
from klamm.pipelines.decoders.avro_records import _AvroPlan, avro
from klamm.pipelines.decoders.avro_schemas import parse_avro, refuse_unsafe
from klamm.pipelines.decoders.avro_types import avro_columns
from klamm.pipelines.decoders.decoder import DecoderError, DecodingPlace
from klamm.pipelines.decoders.python_decoding import decode_values


def _record(*fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "R",
        "fields": [{"name": f"f{at}", "type": each} for at, each in enumerate(fields)],
    }


def _written(schema: Any, value: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def _decoded(schema: Any, *values: bytes | None) -> tuple[list[Any], list[str | None]]:
    parsed = parse_avro(json.dumps(schema))
    decode = _AvroPlan(json.dumps(parsed), None).open()
    decoded, reasons = decode_values(decode, arrow_type(avro_columns(parsed).schema), values)
    return decoded.to_pylist(), reasons


@given(examples, st.data())
def test_what_avro_wrote_is_what_the_columns_have(example: Example, data: st.DataObject) -> None:
    """The columns of a record have the values that were written, in Spark's types."""
    value = data.draw(example.values)
    decoded, reasons = _decoded(example.schema, _written(example.schema, value))
    assert reasons == [None]
    assert decoded == [example.expected(value)]


@given(examples, st.data(), st.binary(max_size=20))
def test_any_bytes_are_decoded_or_bad(example: Example, data: st.DataObject, other: bytes) -> None:
    """Bytes of any kind give columns or a reason; a part of a record, or more than a record, gives a reason."""
    written = _written(example.schema, data.draw(example.values))
    decoded, reasons = _decoded(example.schema, other, written + b"\0", written[:-1], None)
    for value, reason in zip(decoded, reasons, strict=True):
        assert value is None or reason is None
    assert reasons[1] == "the value has 1 bytes after its Avro record (the schema)"
    assert (decoded[2] is None) or not written
    assert (decoded[3], reasons[3]) == (None, None)


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (["int", "long"], "bigint"),
        (["null", "float", "double"], "double"),
        (["null"], "string"),
        ("null", "string"),
        (["null", "int", "string"], "struct<member0:int,member1:string>"),
        ({"type": "int", "logicalType": "time-millis"}, "int"),
        ({"type": "long", "logicalType": "time-micros"}, "bigint"),
        ({"type": "long", "logicalType": "timestamp-nanos"}, "timestamp"),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "timestamp_ntz"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 38}, "decimal(38,38)"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "string"),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, "binary"),
        ({"type": "record", "name": "Empty", "fields": []}, "boolean"),
    ],
)
def test_the_type_of_a_column(field: Any, expected: str) -> None:
    """Each type of Avro has one type of Spark."""
    schema = avro_columns(parse_avro(json.dumps(_record(field)))).schema
    assert schema.simpleString() == f"struct<f0:{expected}>"


def test_a_union_of_several_types_has_a_member_for_each() -> None:
    """A union of several types is a struct in which one member is not null, as with Spark's `from_avro`."""
    inner = [
        {"type": "record", "name": name, "namespace": "x", "fields": [{"name": "a", "type": "int"}]} for name in "PQ"
    ]
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    schema = _record(["null", "long", "string", {"type": "map", "values": "int"}, *inner, enum])
    values = [None, 2**40, "x", {"k": 1}, ("x.P", {"a": 1}), ("x.Q", {"a": 2}), ("E", "A")]
    decoded, reasons = _decoded(schema, *(_written(schema, {"f0": value}) for value in values))
    assert reasons == [None] * 7
    found = [
        record["f0"] and {name: member for name, member in record["f0"].items() if member is not None}
        for record in decoded
    ]
    assert found == [
        None,
        {"member0": 2**40},
        {"member1": "x"},
        {"member2": [("k", 1)]},
        {"member3": {"a": 1}},
        {"member4": {"a": 2}},
        {"member5": "A"},
    ]


def test_a_named_type_is_used_twice() -> None:
    """A named type that a schema uses again by its name has the same columns there."""
    schema = _record({"type": "record", "name": "P", "fields": [{"name": "a", "type": "int"}]}, ["null", "P"])
    decoded, _ = _decoded(schema, _written(schema, {"f0": {"a": 1}, "f1": {"a": 2}}))
    assert decoded == [{"f0": {"a": 1}, "f1": {"a": 2}}]


@pytest.mark.parametrize(("schema", "value"), [("long", 5), ("bytes", b"x"), ({"type": "array", "items": "int"}, [1])])
def test_a_schema_that_is_no_record_has_one_column(schema: Any, value: Any) -> None:
    """A value that is no record becomes the column `value`."""
    decoded, _ = _decoded(schema, _written(schema, value))
    assert decoded == [{"value": value}]


@pytest.mark.parametrize(
    ("field", "data", "reason"),
    [
        ("string", b"\x08ab", "the value ends before its Avro record does (the schema)"),
        ("string", b"\x02\xff", "the value is no Avro of the schema: UnicodeDecodeError"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x08", "the value is no Avro of the schema: IndexError"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "the time 9223372036854775807 ms is outside the range of Spark",
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2},
            b"\x04\x7f\xff",
            "a value does not fit its column",
        ),
    ],
)
def test_the_reason_says_why_bytes_are_no_record(field: Any, data: bytes, reason: str) -> None:
    """Bytes that are no record of the schema have a reason; records next to them in the batch are good."""
    good = _written(_record("null"), {"f0": None})
    decoded, reasons = _decoded(_record(field), data)
    assert decoded == [None]
    assert reasons[0] is not None
    assert reasons[0].startswith(reason)
    assert _decoded(_record("null"), good)[1] == [None]


_RECURSIVE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "next", "type": ["null", {"type": "array", "items": "Node"}]}],
}


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        (_RECURSIVE, "the Avro record Node contains itself \\(at next.*\\), but Spark has no recursive types"),
        (_record("Missing"), "not an Avro schema"),
        ({"type": "record", "name": "R", "fields": [{"name": n, "type": "int"} for n in "aA"]}, "the fields a and A"),
        (_record({"type": "array", "items": "null"}), "elements that take no bytes"),
    ],
)
def test_a_schema_that_can_not_be_columns_is_refused(schema: Any, error: str) -> None:
    """A schema that Spark can't have as columns is refused with a sentence when the flow starts."""
    with pytest.raises(DecoderError, match=error):
        avro(schema).pin(DecodingPlace())


@pytest.mark.parametrize(
    "schema", [_RECURSIVE, _record({"type": "array", "items": {"type": "fixed", "name": "Z", "size": 0}})]
)
def test_writer_schemas_that_could_stop_a_worker_are_refused(schema: Any) -> None:
    """A writer schema by which some bytes could keep a worker busy, or crash it, makes its records bad."""
    with pytest.raises(DecoderError):
        refuse_unsafe(parse_avro(json.dumps(schema)))


def test_the_schema_comes_from_a_file_a_text_or_a_dict(tmp_path: Path) -> None:
    """A schema may be a file, a text or a dict; what is stored fixes the same decoding."""
    schema = _record("int")
    (tmp_path / "r.avsc").write_text(json.dumps(schema), encoding="utf-8")
    given: list[Any] = [schema, json.dumps(schema), tmp_path / "r.avsc", str(tmp_path / "r.avsc")]
    pinned = [avro(each).pin(DecodingPlace()) for each in given]
    assert [each.stored for each in pinned] == [pinned[0].stored] * 4
    assert [each.schema.simpleString() for each in pinned] == ["struct<f0:int>"] * 4
    assert json.loads(json.dumps(pinned[0].stored)) == pinned[0].stored


def test_a_file_that_is_missing_is_refused() -> None:
    """A schema file that can't be read is refused when the flow is declared."""
    with pytest.raises(DecoderError, match=r"missing.avsc.*can't be read"):
        avro("missing.avsc")


def test_a_declaration_without_any_schema_is_refused() -> None:
    """Neither a schema nor a registry is an error, and so is a subject next to a schema."""
    with pytest.raises(DecoderError, match="needs a schema, or a registry"):
        avro()
    with pytest.raises(DecoderError, match="subject and version choose"):
        avro("{}", subject="x")


def test_a_referred_schema_is_put_in_place() -> None:
    """A schema may refer to others by their full names, also indirectly."""
    root = {"type": "record", "name": "A", "namespace": "n", "fields": [{"name": "b", "type": "m.B"}]}
    middle = {"type": "record", "name": "m.B", "fields": [{"name": "c", "type": "C"}]}
    last = {"type": "enum", "name": "C", "namespace": "m", "symbols": ["X"]}
    parsed = parse_avro(json.dumps(root), {"m.C": json.dumps(last), "m.B": json.dumps(middle)})
    assert avro_columns(parsed).schema.simpleString() == "struct<b:struct<c:string>>"
