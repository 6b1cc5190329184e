"""Tests that small tables are joined and keep their rows."""

from __future__ import annotations

import pyarrow as pa

from klamm.spark.sink.larger_tables import joined_tables


def test_small_tables_are_joined() -> None:
    """Small tables are joined until they reach the target size; the last table may be smaller, and an empty input
    gives none."""
    rows = [str(100 + index) for index in range(50)]
    tables = [pa.record_batch({"value": rows[start : start + 10]}) for start in range(0, 50, 10)]
    joined = list(joined_tables(iter(tables), 2 * tables[-1].nbytes))

    assert [each.num_rows for each in joined] == [20, 20, 10]
    assert [row for each in joined for row in each.column(0).to_pylist()] == rows
    assert list(joined_tables(iter([]))) == []
