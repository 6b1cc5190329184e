"""The validation of records by a JSON Schema."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("jsonschema")

import pyarrow as pa

from klamm.pipelines.decoders.json_schema import _validate_batches


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
