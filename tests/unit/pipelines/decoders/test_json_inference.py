"""The schema that a sample of JSON objects has."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from pyspark.sql.types import StructType

from klamm.pipelines.decoders.json_inference import InferredSchema, infer_schema


def _inferred(*objects: Any) -> InferredSchema:
    found = infer_schema(json.dumps(value).encode() for value in objects)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], "bigint"),
        ([1, 2.5], "double"),
        ([True, None], "boolean"),
        (["a"], "string"),
        ([[1], [2.5]], "array<double>"),
        ([{"b": 1}, {"c": "x"}], "struct<b:bigint,c:string>"),
        ([[{"b": 1}], []], "array<struct<b:bigint>>"),
    ],
)
def test_a_column_takes_the_type_that_holds_all_values_without_a_note(values: list[Any], expected: str) -> None:
    """A column takes the narrowest type that holds all its values, and nothing has to be said of it."""
    found = _inferred(*({"a": value} for value in values))
    assert found.schema.simpleString() == f"struct<a:{expected}>"
    assert found.notes == ()


@pytest.mark.parametrize(
    ("values", "expected", "note"),
    [
        ([1, "x", 2], "string", "a is a string: the sample disagrees, string (1), whole number (2)"),
        ([None, None], "string", "a is a string: it is null in all sampled records"),
        ([{}], "string", "a is a string: it is an empty object in all sampled records"),
        ([[]], "array<string>", "a is an array of strings: it is empty in all sampled records"),
        ([2**70], "decimal(38,0)", "a is a decimal: some of its whole numbers exceed a bigint"),
        ([10**40], "string", "a is a string: some of its whole numbers have more than 38 digits"),
        ([[1, "x"]], "array<string>", "a[] is a string: the sample disagrees, string (1), whole number (1)"),
        (
            [{"b": True}, {"b": {}}],
            "struct<b:string>",
            "a.b is a string: the sample disagrees, boolean (1), object (1)",
        ),
    ],
)
def test_a_note_tells_what_the_sample_leaves_open(values: list[Any], expected: str, note: str) -> None:
    """Where the sample does not determine a type, or disagrees, a note says what the column became and why."""
    found = _inferred(*({"a": value} for value in values))
    assert found.schema.simpleString() == f"struct<a:{expected}>"
    assert found.notes == (note,)


def test_columns_that_spark_takes_for_one_become_the_most_frequent_one() -> None:
    """Of two names that differ only in their case, the more frequent one becomes a column, and a note says so."""
    found = _inferred({"size": 1}, {"Size": 1}, {"Size": 2})
    assert found.schema.simpleString() == "struct<Size:bigint>"
    assert found.notes == ("size is left out: Spark takes it for the same name as Size, which is more frequent",)


def test_columns_are_in_the_order_of_their_first_appearance_and_nullable() -> None:
    """Columns are in the order in which the sample shows them; all are nullable."""
    found = _inferred({"b": 1}, {"a": 1, "b": 2})
    assert found.schema.fieldNames() == ["b", "a"]
    assert all(field.nullable for field in found.schema.fields)


def test_records_that_are_no_objects_are_counted_and_ignored() -> None:
    """Records that are not JSON objects do not determine columns; a note counts them."""
    found = infer_schema([b'{"a":1}', b"[1]", b"\xff", b'{"a":', b"[" * 100_000])
    assert found is not None
    assert found.schema.simpleString() == "struct<a:bigint>"
    assert found.notes == ("4 of 5 sampled records are no JSON objects",)


@pytest.mark.parametrize("values", [[], [b"x"], [b"{}"]])
def test_a_sample_without_a_field_has_no_schema(values: list[bytes]) -> None:
    """Without any field in the sample there is no schema."""
    assert infer_schema(values) is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=10,
)


@given(st.lists(st.dictionaries(st.text(max_size=2), _JSON, max_size=3), max_size=5))
def test_any_objects_have_a_schema_that_can_be_stored(objects: list[dict[str, Any]]) -> None:
    """Any objects with a field have a schema, which is the same after it was stored as JSON."""
    found = infer_schema(json.dumps(value).encode() for value in objects)
    assert (found is None) == (not any(objects))
    if found is not None:
        assert StructType.fromJson(json.loads(json.dumps(found.schema.jsonValue()))) == found.schema
