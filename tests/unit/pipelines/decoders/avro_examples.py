"""Strategies for Avro schemas with values, and what a decoder makes of these values."""

from __future__ import annotations

import datetime
import decimal
import struct
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

__all__ = ["Example", "examples"]


class Example(NamedTuple):
    """A schema, the values of it, and the form that Arrow's `to_pylist` gives them."""

    schema: Any
    values: st.SearchStrategy[Any]
    expected: Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


def _float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


_UTC_TIMES = st.datetimes(
    min_value=datetime.datetime(1, 1, 3), max_value=datetime.datetime(9999, 12, 30), timezones=st.just(datetime.UTC)
)
_DECIMALS = st.decimals(min_value=-9999, max_value=9999, places=2, allow_nan=False)

_SIMPLE = [
    Example("boolean", st.booleans(), _same),
    Example("int", st.integers(-(2**31), 2**31 - 1), _same),
    Example("long", st.integers(-(2**63), 2**63 - 1), _same),
    Example("float", st.floats(width=32, allow_nan=False), _float32),
    Example("double", st.floats(allow_nan=False), _same),
    Example("bytes", st.binary(max_size=8), _same),
    Example("string", st.text(max_size=8), _same),
    Example({"type": "int", "logicalType": "date"}, st.dates(), _same),
    Example(
        {"type": "long", "logicalType": "timestamp-millis"},
        _UTC_TIMES.map(lambda time: time.replace(microsecond=time.microsecond // 1000 * 1000)),
        _same,
    ),
    Example({"type": "long", "logicalType": "timestamp-micros"}, _UTC_TIMES, _same),
    Example(
        {"type": "long", "logicalType": "local-timestamp-micros"},
        _UTC_TIMES.map(lambda time: time.replace(tzinfo=None)),
        _same,
    ),
    Example({"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}, _DECIMALS, decimal.Decimal),
    Example({"type": "string", "logicalType": "uuid"}, st.uuids(), str),
    Example({"type": "int", "logicalType": "unknown"}, st.integers(0, 9), _same),
]


def _array(inner: Example) -> Example:
    return Example(
        {"type": "array", "items": inner.schema},
        st.lists(inner.values, max_size=3),
        lambda values: [inner.expected(value) for value in values],
    )


def _map(inner: Example) -> Example:
    return Example(
        {"type": "map", "values": inner.schema},
        st.dictionaries(st.text(max_size=3), inner.values, max_size=3),
        lambda values: [(name, inner.expected(value)) for name, value in values.items()],
    )


def _nullable(inner: Example) -> Example:
    if isinstance(inner.schema, list):
        return inner
    return Example(
        ["null", inner.schema],
        st.none() | inner.values,
        lambda value: None if value is None else inner.expected(value),
    )


def _record(fields: list[Example]) -> Example:
    names = [f"f{at}" for at in range(len(fields))]
    by_name = dict(zip(names, fields, strict=True))
    return Example(
        {
            "type": "record",
            "name": f"r{uuid.uuid4().hex}",
            "fields": [{"name": name, "type": field.schema} for name, field in by_name.items()],
        },
        st.fixed_dictionaries({name: field.values for name, field in by_name.items()}),
        lambda record: {name: field.expected(record[name]) for name, field in by_name.items()},
    )


def _named() -> st.SearchStrategy[Example]:
    name = st.builds(lambda: f"n{uuid.uuid4().hex}")
    enum = name.map(
        lambda name: Example({"type": "enum", "name": name, "symbols": ["A", "B"]}, st.sampled_from("AB"), _same)
    )
    fixed = name.map(
        lambda name: Example({"type": "fixed", "name": name, "size": 3}, st.binary(min_size=3, max_size=3), _same)
    )
    return enum | fixed


_TYPES = st.recursive(
    st.sampled_from(_SIMPLE) | _named(),
    lambda inner: (
        inner.map(_array)
        | inner.map(_map)
        | inner.map(_nullable)
        | st.lists(inner, min_size=1, max_size=3).map(_record)
    ),
    max_leaves=6,
)

examples: st.SearchStrategy[Example] = st.lists(_TYPES, min_size=1, max_size=4).map(_record)
"""Records of anything but unions with several branches."""
