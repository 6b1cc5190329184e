"""Joins the tables that Spark hands to a task, so that the record batches that are built from them become full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

__all__ = ["joined_tables"]

_ENOUGH_BYTES: Final = 8_388_608


def joined_tables(tables: Iterator[pa.RecordBatch], enough_bytes: int = _ENOUGH_BYTES) -> Iterator[pa.RecordBatch]:
    """Yields tables of at least this size, with the same rows in the same order; the last one may be smaller."""
    waiting: list[pa.RecordBatch] = []
    size_bytes = 0
    for table in tables:
        waiting.append(table)
        size_bytes += table.nbytes
        if size_bytes >= enough_bytes:
            yield from _joined(waiting)
            waiting, size_bytes = [], 0
    if waiting:
        yield from _joined(waiting)


def _joined(tables: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    return tables if len(tables) == 1 else pa.Table.from_batches(tables).combine_chunks().to_batches()
