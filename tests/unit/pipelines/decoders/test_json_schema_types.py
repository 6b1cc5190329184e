"""The columns of a JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")

from klamm.pipelines.decoders.decoder import DecoderError
from klamm.pipelines.decoders.json_schema_types import json_schema_columns


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "string"),
        ({"type": "integer"}, "bigint"),
        ({"type": "number"}, "double"),
        ({"type": ["integer", "number"]}, "double"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "null"}, "string"),
        ({"type": ["null", "integer"]}, "bigint"),
        ({"type": "string", "format": "date-time"}, "timestamp"),
        ({"type": "string", "format": "date"}, "date"),
        ({"type": "string", "format": "email"}, "string"),
        ({"enum": ["a", "b"]}, "string"),
        ({"enum": [1, None]}, "bigint"),
        ({"const": True}, "boolean"),
        ({"type": "array", "items": {"type": "integer"}}, "array<bigint>"),
        ({"type": "array"}, "array<string>"),
        (_object(a={"type": "integer"}), "struct<a:bigint>"),
        ({"properties": {"a": {"type": "integer"}}}, "struct<a:bigint>"),
        ({"type": "object", "additionalProperties": {"type": "number"}}, "map<string,double>"),
        ({"anyOf": [{"type": "null"}, {"type": "integer"}]}, "bigint"),
        ({"oneOf": [{"const": "a"}, {"type": "string", "minLength": 3}]}, "string"),
        ({"allOf": [_object(a={"type": "integer"}), _object(b={"type": "string"})]}, "struct<a:bigint,b:string>"),
        ({"allOf": [{"minimum": 3}, {"type": "integer"}]}, "bigint"),
        ({"type": "object", "allOf": [_object(a={"type": "integer"})]}, "struct<a:bigint>"),
        ({**_object(b={"type": "string"}), "allOf": [_object(a={"type": "integer"})]}, "struct<a:bigint,b:string>"),
        ({**_object(a={"type": "string"}), "allOf": [{"if": {}, "then": {}}]}, "struct<a:string>"),
        ({"type": "integer", "allOf": [{"minimum": 3}]}, "bigint"),
        ({**_object(a={"type": "integer"}), "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, "struct<a:bigint>"),
        ({**_object(a={"type": "integer"}), "oneOf": [_object(a={"const": 1}), {}]}, "struct<a:bigint>"),
        ({"$ref": "#/$defs/size"}, "bigint"),
        ({"$ref": "other.json#/definitions/x~1y"}, "double"),
        ({"$ref": "other.json"}, "struct<z:double>"),
        (True, "string"),
        ({}, "string"),
    ],
)
def test_the_type_of_a_property(schema: Any, expected: str) -> None:
    """Each kind of schema has one type of Spark, and nothing has to be said of it."""
    other = {**_object(z={"$ref": "#/definitions/x~1y"}), "definitions": {"x/y": {"type": "number"}}}
    root = {**_object(p=schema), "$defs": {"size": {"type": "integer"}}}
    found, notes = json_schema_columns(root, {"other.json": other})
    assert found.simpleString() == f"struct<p:{expected}>"
    assert notes == ()


@pytest.mark.parametrize(
    ("schema", "note"),
    [
        ({"type": ["string", "integer"]}, "p is JSON text: it may be string or integer"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "p is JSON text: it is a choice of 2 types"),
        ({"type": "object"}, "p is JSON text: its properties are not named"),
        ({"$ref": "#"}, "p is JSON text: its schema contains itself"),
        ({"type": "array", "items": {"$ref": "#"}}, "p[] is JSON text: its schema contains itself"),
    ],
)
def test_a_note_tells_which_columns_are_json_text(schema: Any, note: str) -> None:
    """What Spark has no type for is a column of JSON text, and a note says why."""
    assert json_schema_columns(_object(p=schema), {})[1] == (note,)


def test_required_properties_that_can_not_be_null_are_not_null() -> None:
    """A property is NOT NULL if the schema requires it and does not allow null."""
    schema = {
        **_object(
            a={"type": "integer"},
            b={"type": ["integer", "null"]},
            c={"type": "integer"},
            d={"anyOf": [{"type": "null"}]},
        ),
        "required": ["a", "b", "d"],
    }
    found, _ = json_schema_columns(schema, {})
    assert {field.name: field.nullable for field in found.fields} == {"a": False, "b": True, "c": True, "d": True}


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({"type": "string"}, "no objects with properties"),
        ({"type": "object"}, "no objects with properties"),
        (_object(a={"$ref": "#/$defs/missing"}), 'refers to "#/\\$defs/missing", which is not there'),
        (_object(a={"$ref": "missing.json"}), "which is not there"),
        (_object(a={}, A={}), "the properties a and A"),
        (_object(a={"type": "whole"}), "the type 'whole' \\(at a\\), which does not exist"),
    ],
)
def test_a_schema_without_columns_is_refused(schema: Any, error: str) -> None:
    """A schema that has no columns, or refers to what is not there, is refused with a sentence."""
    with pytest.raises(DecoderError, match=error):
        json_schema_columns(schema, {})
