"""Tests that tables are divided by topic, and that their columns get the types of records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from klamm.spark.sink.errors import RowRefused
from klamm.spark.sink.sink_columns import SinkColumns
from klamm.spark.sink.topic_rows import divide_by_topic

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def divided(columns: dict[str, Any], topic: str | None = None) -> dict[str, list[tuple[Any, ...]]]:
    """Returns the rows of each topic of a table with these columns."""
    table = pa.record_batch(list(columns.values()), names=list(columns))
    positions = SinkColumns(**{name: position for position, name in enumerate(columns)})
    found = {}
    for rows in divide_by_topic(table, positions, topic):
        assert rows.values.type == pa.binary()
        parts = (rows.values, rows.keys, rows.headers, rows.partitions)
        found[rows.topic] = list(zip(*(part.to_pylist() for part in parts if part is not None), strict=True))
    return found


def test_rows_of_one_topic_keep_their_order() -> None:
    """Rows of one topic keep their order and all their columns, also if the topics alternate."""
    table = {
        "value": pa.array(["1", None, "3", "4"]),
        "key": pa.array([b"a", b"b", None, b"d"]),
        "topic": pa.array(["x", "y", "x", "y"]),
        "headers": pa.array([None, [], [{"key": "h", "value": None}], None], HEADERS),
        "partition": pa.array([0, None, 2, 3], pa.int32()),
    }

    assert divided(table) == {
        "x": [(b"1", b"a", None, 0), (b"3", None, [{"key": "h", "value": None}], 2)],
        "y": [(None, b"b", [], None), (b"4", b"d", None, 3)],
    }


def test_one_topic_is_not_divided() -> None:
    """A table is not divided if all rows name the same topic, or if the option names the topic."""
    values = pa.array([b"1", b"2"])

    assert divided({"value": values, "topic": pa.array(["x", "x"])}) == {"x": [(b"1",), (b"2",)]}
    assert divided({"value": values, "topic": pa.array(["x", None])}, "y") == {"y": [(b"1",), (b"2",)]}
    assert divided({"value": values}, "y") == {"y": [(b"1",), (b"2",)]}
    assert divided({"value": values[:0]}, "y") == {}


def test_large_types_become_small() -> None:
    """Arrow's large types become the normal types; a Spark session can be set to produce large types."""
    table = {
        "value": pa.array(["ä"], pa.large_string()),
        "key": pa.array([b"k"], pa.large_binary()),
        "topic": pa.array(["x"], pa.large_string()),
        "headers": pa.array(
            [[("h", b"v")]], pa.list_(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
        ),
    }

    assert divided(table) == {"x": [("ä".encode(), b"k", [{"key": "h", "value": b"v"}])]}


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ({"topic": pa.array(["x", None])}, "a null topic"),
        ({"headers": pa.array([[None], None], HEADERS)}, "a null header"),
        ({"headers": pa.array([None, [{"key": None, "value": b"v"}]], HEADERS)}, "a header without a key"),
    ],
)
def test_what_can_not_be_a_record_is_refused(column: dict[str, Any], message: str) -> None:
    """A row that can't be a record is refused with an error that names the null topic or header."""
    with pytest.raises(RowRefused, match=message):
        divided({"value": pa.array(["1", "2"]), **column}, None if "topic" in column else "x")


def test_nulls_outside_of_a_slice_do_not_matter() -> None:
    """Nulls outside of a slice do not matter; Spark may pass a slice of a table."""
    headers = pa.array([[None], [{"key": "h", "value": None}]], HEADERS)[1:]

    assert divided({"value": pa.array(["2"]), "headers": headers}, "x") == {
        "x": [(b"2", [{"key": "h", "value": None}])]
    }
