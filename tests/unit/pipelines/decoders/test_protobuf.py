"""Protobuf without a registry: columns, values and reasons."""

from __future__ import annotations

import datetime
import decimal
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")
pytest.importorskip("google.protobuf")

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from tests.support.protobuf_schemas import message_class, proto_file

from klamm.pipelines.decoders.arrow_types import arrow_type
from klamm.pipelines.decoders.decoder import DecoderError, DecodingPlace
from klamm.pipelines.decoders.protobuf_files import from_class, message_name, message_names
from klamm.pipelines.decoders.protobuf_messages import _ProtobufPlan, protobuf
from klamm.pipelines.decoders.protobuf_types import message_columns
from klamm.pipelines.decoders.python_decoding import decode_values

_SCALARS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "bool": ("boolean", st.booleans()),
    "bytes": ("binary", st.binary(max_size=5)),
    "double": ("double", st.floats(allow_nan=False)),
    "fixed32": ("bigint", st.integers(0, 2**32 - 1)),
    "fixed64": ("decimal(20,0)", st.integers(0, 2**64 - 1)),
    "float": ("float", st.floats(width=32, allow_nan=False)),
    "int32": ("int", st.integers(-(2**31), 2**31 - 1)),
    "int64": ("bigint", st.integers(-(2**63), 2**63 - 1)),
    "sfixed32": ("int", st.integers(-(2**31), 2**31 - 1)),
    "sfixed64": ("bigint", st.integers(-(2**63), 2**63 - 1)),
    "sint32": ("int", st.integers(-(2**31), 2**31 - 1)),
    "sint64": ("bigint", st.integers(-(2**63), 2**63 - 1)),
    "string": ("string", st.text(max_size=5)),
    "uint32": ("bigint", st.integers(0, 2**32 - 1)),
    "uint64": ("decimal(20,0)", st.integers(0, 2**64 - 1)),
}


def _decoded(cls: Any, *values: bytes | None) -> tuple[list[Any], list[str | None]]:
    file = from_class(cls)
    decode = _ProtobufPlan(file.files.SerializeToString(), file.message, None).open()
    decoded, reasons = decode_values(decode, arrow_type(message_columns(cls.DESCRIPTOR)[0]), values)
    return decoded.to_pylist(), reasons


_EVERY = {f"f_{kind}": kind for kind in _SCALARS} | {f"o_{kind}": f"optional3 {kind}" for kind in _SCALARS}
_EVERY |= {f"r_{kind}": f"repeated {kind}" for kind in _SCALARS}
_EVERY |= {f"m_{kind}": f"map string {kind}" for kind in _SCALARS}
_ALL = message_class("shop.All", proto_file("all.proto", {"All": _EVERY}))


def _values(kind: str) -> st.SearchStrategy[Any]:
    return _SCALARS[kind][1]


@given(st.data())
def test_what_was_set_is_what_the_columns_have(data: st.DataObject) -> None:
    """Scalars, alone, optional, repeated and in maps, become columns with the values that were set."""
    message = _ALL()
    expected: dict[str, Any] = {}
    for kind in _SCALARS:
        plain = data.draw(_values(kind))
        maybe = data.draw(st.none() | _values(kind))
        several = data.draw(st.lists(_values(kind), max_size=2))
        entries = data.draw(st.dictionaries(st.text(max_size=2), _values(kind), max_size=2))
        setattr(message, f"f_{kind}", plain)
        if maybe is not None:
            setattr(message, f"o_{kind}", maybe)
        getattr(message, f"r_{kind}").extend(several)
        getattr(message, f"m_{kind}").update(entries)
        expected |= {f"f_{kind}": plain, f"o_{kind}": maybe, f"r_{kind}": several, f"m_{kind}": sorted(entries.items())}
    decoded, reasons = _decoded(_ALL, message.SerializeToString())
    assert reasons == [None]
    assert decoded == [expected]


@given(st.binary(max_size=30))
def test_any_bytes_are_decoded_or_bad(data: bytes) -> None:
    """Bytes of any kind give columns or a reason."""
    decoded, reasons = _decoded(_ALL, data, None)
    assert (decoded[0] is None) != (reasons[0] is None)
    assert (decoded[1], reasons[1]) == (None, None)


def test_the_types_of_columns() -> None:
    """Each scalar type of Protobuf has one type of Spark."""
    schema = message_columns(_ALL.DESCRIPTOR)[0]
    for kind, (expected, _) in _SCALARS.items():
        assert schema[f"f_{kind}"].dataType.simpleString() == expected
        assert schema[f"r_{kind}"].dataType.simpleString() == f"array<{expected}>"
        assert schema[f"m_{kind}"].dataType.simpleString() == f"map<string,{expected}>"


def test_what_is_not_set_is_null_or_the_default_of_proto3() -> None:
    """Fields that know whether they were set are null; others have proto3's default, lists and maps are empty."""
    file = proto_file(
        "defaults.proto",
        {
            "Inner": {"id": "int32"},
            "Outer": {
                "number": "int32",
                "text": "string",
                "maybe": "optional3 int32",
                "inner": ".shop.Inner",
                "tags": "repeated string",
                "sizes": "map string int32",
                "kind": "#.shop.Kind",
            },
            "Choice": {"a": "oneof which int32", "b": "oneof which string"},
        },
        enums={"Kind": ("UNKNOWN", "BIG")},
    )
    outer, choice = message_class("shop.Outer", file), message_class("shop.Choice", file)
    assert _decoded(outer, b"")[0] == [
        {"number": 0, "text": "", "maybe": None, "inner": None, "tags": [], "sizes": [], "kind": "UNKNOWN"}
    ]
    assert _decoded(outer, outer(inner={}, maybe=0, kind=1).SerializeToString())[0][0] | {} == {
        "number": 0, "text": "", "maybe": 0, "inner": {"id": 0}, "tags": [], "sizes": [], "kind": "BIG"
    }  # fmt: skip
    assert _decoded(outer, outer(kind=7).SerializeToString())[0][0]["kind"] == "7"
    assert _decoded(choice, choice(b="").SerializeToString())[0] == [{"a": None, "b": ""}]


def test_well_known_types() -> None:
    """Times, durations, wrappers and JSON values become the types that Spark has for them."""
    google = {
        kind: f".google.protobuf.{kind}" for kind in ("Timestamp", "Duration", "Struct", "Int64Value", "Any", "Empty")
    }
    file = proto_file(
        "known.proto",
        {
            "Known": {kind.lower(): name for kind, name in google.items()}
            | {"times": "repeated .google.protobuf.Timestamp"}
        },
        imports=tuple(
            f"google/protobuf/{name}.proto" for name in ("timestamp", "duration", "struct", "wrappers", "any", "empty")
        ),
    )
    known = message_class("shop.Known", file)
    assert message_columns(known.DESCRIPTOR)[0].simpleString() == (
        "struct<timestamp:timestamp,duration:interval day to second,struct:string,int64value:bigint,"
        "any:struct<type_url:string,value:binary>,empty:boolean,times:array<timestamp>>"
    )
    message = known()
    message.timestamp.FromDatetime(datetime.datetime(2026, 1, 31, 12, 0, 0, 7))
    message.duration.FromTimedelta(datetime.timedelta(seconds=-1, microseconds=5))
    message.struct.update({"b": [1, None], "a": "é"})
    message.int64value.value = 0
    message.empty.SetInParent()
    (found,), reasons = _decoded(known, message.SerializeToString())
    assert reasons == [None]
    assert found == {
        "timestamp": datetime.datetime(2026, 1, 31, 12, 0, 0, 7, datetime.UTC),
        "duration": datetime.timedelta(seconds=-1, microseconds=5),
        "struct": '{"a": "é", "b": [1.0, null]}',
        "int64value": 0,
        "any": None,
        "empty": True,
        "times": [],
    }
    message.timestamp.seconds = 2**62
    assert str(_decoded(known, message.SerializeToString())[1][0]).startswith("a value does not fit its column")


def test_required_fields_of_proto2() -> None:
    """A message of proto2 that lacks a required field is bad; a default of proto2 is not taken for a value."""
    file = proto_file("old.proto", {"Old": {"id": "required int32", "note": "optional string"}}, syntax="proto2")
    old = message_class("shop.Old", file)
    decoded, reasons = _decoded(old, old(id=0).SerializeToString(), b"", b"\x08\x01\x12\x01\xff")
    assert decoded == [{"id": 0, "note": None}, None, None]
    assert reasons[1] == "the message shop.Old lacks required fields: id"
    assert "was not a utf8 string" in str(reasons[2])


def test_bytes_that_are_no_message_have_a_reason() -> None:
    """A truncated message and a string that is not UTF-8 have a reason."""
    one = message_class("shop.One", proto_file("one.proto", {"One": {"name": "string"}}))
    decoded, reasons = _decoded(one, b"\x0a\x05ab", b"\x0a\x01\xff", b"\x12\x01x")
    assert decoded == [None, None, {"name": ""}]
    assert all(str(reason).startswith("the value is no Protobuf message shop.One") for reason in reasons[:2])


def test_messages_that_spark_can_not_have_are_refused() -> None:
    """Recursive messages, names that Spark can't tell apart and messages without fields are refused with a sentence."""
    file = proto_file("bad.proto", {"Node": {"next": ".shop.Node"}, "Twice": {"a": "int32", "A": "int32"}, "None": {}})
    for name, error in [
        ("Node", r"shop.Node contains itself \(at next\)"),
        ("Twice", "the fields a and A, which are one name"),
        ("None", "shop.None has no columns"),
    ]:
        with pytest.raises(DecoderError, match=error):
            protobuf(message_class(f"shop.{name}", file)).pin(DecodingPlace())


def test_a_message_is_a_class_or_a_name_in_a_descriptor_set(tmp_path: Path) -> None:
    """A generated class, a file of descriptors and their bytes declare the same decoding."""
    file = proto_file(
        "one.proto", {"One": {"at": ".google.protobuf.Timestamp"}}, imports=("google/protobuf/timestamp.proto",)
    )
    only = FileDescriptorSet(file=[file]).SerializeToString()
    (tmp_path / "one.desc").write_bytes(only)
    declared = [
        protobuf(message_class("shop.One", file)),
        protobuf("shop.One", descriptors=tmp_path / "one.desc"),
        protobuf(descriptors=only),
    ]
    pinned = [each.pin(DecodingPlace()) for each in declared]
    assert [each.schema.simpleString() for each in pinned] == ["struct<at:timestamp>"] * 3
    assert json.loads(json.dumps(pinned[0].stored)) == pinned[0].stored
    assert pinned[1].stored == pinned[2].stored


_TWO = FileDescriptorSet(file=[proto_file("two.proto", {"A": {"a": "int32"}, "B": {}})]).SerializeToString()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"descriptors": _TWO}, r"has the messages shop.A, shop.B: name one, protobuf\('shop.A', …\)"),
        ({"descriptors": FileDescriptorSet(file=[proto_file("no.proto", {})]).SerializeToString()}, "has no message"),
        ({}, "needs a generated class, descriptors, or a registry"),
        ({"message": 5}, "give a class that protoc generated"),
        ({"message": "x.Y", "descriptors": "missing.desc"}, "can't be read"),
        ({"message": "x.Y", "descriptors": b"\xff"}, "is no descriptor set"),
        (
            {"message": "x.Y", "descriptors": FileDescriptorSet(file=[proto_file("a.proto", {"A": {}})])},
            "is not in its files",
        ),
    ],
)
def test_wrong_declarations_are_refused(arguments: dict[str, Any], error: str) -> None:
    """A declaration without a message, or with files that lack it, is refused with a sentence."""
    if isinstance(arguments.get("descriptors"), FileDescriptorSet):
        arguments = {**arguments, "descriptors": arguments["descriptors"].SerializeToString()}
    with pytest.raises(DecoderError, match=error):
        protobuf(**arguments).pin(DecodingPlace())


_TEXT = """
// message Comment {}
syntax = "proto3"; /* message Block { } */
package shop.orders;
import "message.proto";
option (custom) = { a: "}" b { c: 1 } };
message First { string message = 1; oneof which { int32 a = 2; } }
message Order {
  enum Kind { UNKNOWN = 0; }
  message Line { message Tax { } int32 id = 1; }
  message Note {}
  repeated Line lines = 1;
}
"""


@pytest.mark.parametrize(
    ("indexes", "name"),
    [
        ((0,), "shop.orders.First"),
        ((1,), "shop.orders.Order"),
        ((1, 0), "shop.orders.Order.Line"),
        ((1, 0, 0), "shop.orders.Order.Line.Tax"),
        ((1, 1), "shop.orders.Order.Note"),
        ((2,), None),
        ((0, 0), None),
        ((-1,), None),
    ],
)
def test_the_message_at_a_place_of_a_text(indexes: tuple[int, ...], name: str | None) -> None:
    """Messages of a .proto file are counted as in its descriptor: in order, each level of nesting for itself."""
    assert message_name(message_names(_TEXT), indexes) == name


def test_decimals_hold_unsigned_numbers() -> None:
    """The largest unsigned number of 64 bits fits its column."""
    message = _ALL(f_uint64=2**64 - 1)
    assert _decoded(_ALL, message.SerializeToString())[0][0]["f_uint64"] == decimal.Decimal(2**64 - 1)
