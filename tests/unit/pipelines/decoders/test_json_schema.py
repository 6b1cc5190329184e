"""The validation of records by a JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("jsonschema")

import pyarrow as pa

from klamm.pipelines.decoders.decoder import DecoderError
from klamm.pipelines.decoders.json_schema import _PinnedJsonSchema, _validate_batches


def _pinned(schema: Any, references: dict[str, str], *, validate: bool = True) -> _PinnedJsonSchema:
    return _PinnedJsonSchema(json.dumps(schema), references, {}, is_framed=False, validate=validate)


def _reasons(schema: Any, *values: bytes) -> list[str | None]:
    reasons = pa.array([None] * len(values), pa.string())
    batch = pa.RecordBatch.from_arrays([pa.array(values, pa.binary()), reasons], ["value", "bad_reason"])
    (checked,) = _validate_batches(schema, {}, 0, [batch])
    found: list[str | None] = checked.column("bad_reason").to_pylist()
    return found


def test_a_number_that_can_not_be_compared_is_bad() -> None:
    """An infinite or huge number, which Spark reads as a double, is a bad record; the task does not fail."""
    schema = {"type": "object", "properties": {"price": {"type": "number", "multipleOf": 0.01}}}
    values = [b'{"price":1e999}', b'{"price":1%s}' % (b"0" * 400), b'{"price":NaN}', b'{"price":0.5}', b'{"price"']
    reasons = _reasons(schema, *values)
    assert [str(reason).startswith("the value can't be compared with the schema") for reason in reasons[:3]] == [
        True
    ] * 3
    assert reasons[3] is None
    assert str(reasons[4]).startswith("the value is not JSON")


_NOWHERE = {"$ref": "#/$defs/nowhere"}


@pytest.mark.parametrize(
    "part",
    [
        {"not": _NOWHERE},
        {"if": _NOWHERE, "then": False},
        {"if": {"required": ["a"]}, "then": _NOWHERE},
        {"patternProperties": {"^x_": _NOWHERE}},
        {"additionalProperties": {"items": [_NOWHERE]}, "$schema": "http://json-schema.org/draft-07/schema#"},
        {"propertyNames": {"$ref": "other.json#/nowhere"}},
        {"not": {"$ref": "other.json"}},
    ],
)
def test_a_reference_to_nothing_is_refused_before_any_record(part: dict[str, Any]) -> None:
    """The validator would notice it when a record needs it, perhaps after days, and the query would fail."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, **part}
    references = {"other.json": json.dumps({"not": _NOWHERE})}
    with pytest.raises(DecoderError, match=r"refers to .*nowhere\", which is not there.*say validate=False"):
        _pinned(schema, references)
    assert _pinned(schema, references, validate=False).schema.names == ["a"]


@pytest.mark.parametrize(
    "part",
    [
        {"$defs": {"unused": _NOWHERE}},
        {"not": {"$ref": "other.json#/$defs/good"}},
        {"properties": {"a": {"type": "string"}, "$ref": {"type": "string"}}},
        {"not": {"$ref": "https://json-schema.org/draft/2020-12/schema"}},
        {"patternProperties": {"^x_": {"$ref": "#"}}},
        {"$id": "https://example.org/a.json", "not": {"$ref": "#/$defs/b"}, "$defs": {"b": {"type": "null"}}},
        {"not": {"$ref": "#named"}, "$defs": {"b": {"$anchor": "named", "type": "null"}}},
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "not": {"$ref": "#/definitions/b", "not": _NOWHERE},
            "definitions": {"b": {"type": "null"}},
        },
    ],
)
def test_references_that_no_record_needs_or_that_name_something(part: dict[str, Any]) -> None:
    """Definitions that nothing refers to may be incomplete, and schemas may refer to each other and to themselves."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, **part}
    other = {"$defs": {"good": {"type": "null"}, "bad": _NOWHERE}}
    assert _pinned(schema, {"other.json": json.dumps(other)}).schema.names[0] == "a"
