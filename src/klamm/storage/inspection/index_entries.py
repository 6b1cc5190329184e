"""Reads the entries of index files without validating them.

A file that Apache Kafka did not close cleanly has zeros after its entries. As in `kafka-dump-log`, the entries end at
the first later entry whose relative offset is 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from klamm.storage.segment.offset_index import OffsetIndex
from klamm.storage.segment.time_index import TimeIndex
from klamm.storage.segment.transaction_index import AbortedTransaction, TransactionIndex, decode_entries

__all__ = [
    "OffsetEntry",
    "TimeEntry",
    "read_aborted_transactions",
    "read_offset_entries",
    "read_time_entries",
    "trailing_bytes",
]


class OffsetEntry(NamedTuple):
    """The last offset of a batch, and the batch's position."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp so far, and the last offset of the batch that has it."""

    timestamp: int
    offset: int


def read_offset_entries(path: Path, base_offset: int) -> Iterator[OffsetEntry]:
    """Yields the entries of an offset index. Raises OSError."""
    for number, (relative, position) in enumerate(OffsetIndex.ENTRY.iter_unpack(_whole(path, OffsetIndex.ENTRY.size))):
        if number and not relative:
            return
        yield OffsetEntry(base_offset + relative, position)


def read_time_entries(path: Path, base_offset: int) -> Iterator[TimeEntry]:
    """Yields the entries of a time index. Raises OSError."""
    for number, (timestamp, relative) in enumerate(TimeIndex.ENTRY.iter_unpack(_whole(path, TimeIndex.ENTRY.size))):
        if number and not relative:
            return
        yield TimeEntry(timestamp, base_offset + relative)


def read_aborted_transactions(path: Path) -> Iterator[AbortedTransaction]:
    """Yields the entries of a transaction index. Raises OSError."""
    return decode_entries(path.read_bytes())


def trailing_bytes(path: Path) -> int:
    """Returns the number of bytes after the last whole entry of an index file. Raises OSError."""
    for index in (OffsetIndex, TimeIndex, TransactionIndex):
        if path.suffix == _SUFFIXES[index]:
            return path.stat().st_size % index.ENTRY.size
    raise ValueError(f"{path} is no index")


def _whole(path: Path, size: int) -> bytes:
    content = path.read_bytes()
    return content[: len(content) - len(content) % size]


_SUFFIXES = {OffsetIndex: ".index", TimeIndex: ".timeindex", TransactionIndex: ".txnindex"}
