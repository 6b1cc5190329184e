"""The entries of index files, read as they stand: nothing is refused but what is no entry.

A file that Apache Kafka did not close in order is longer than its entries: zeros follow. An entry that repeats the
segment's base offset after others is where they begin (as `kafka-dump-log` has it).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from klamm.storage.offset_index import OffsetIndex
from klamm.storage.time_index import TimeIndex
from klamm.storage.transaction_index import AbortedTransaction, TransactionIndex, decode_entries

__all__ = [
    "OffsetEntry",
    "TimeEntry",
    "read_aborted_transactions",
    "read_offset_entries",
    "read_time_entries",
    "trailing_bytes",
]


class OffsetEntry(NamedTuple):
    """The last offset of a batch, and where it begins."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp so far, and the last offset of the batch that has it."""

    timestamp: int
    offset: int


def read_offset_entries(path: Path, base_offset: int) -> Iterator[OffsetEntry]:
    """The entries of an offset index. Raises OSError."""
    for number, (relative, position) in enumerate(OffsetIndex.ENTRY.iter_unpack(_whole(path, OffsetIndex.ENTRY.size))):
        if number and not relative:
            return
        yield OffsetEntry(base_offset + relative, position)


def read_time_entries(path: Path, base_offset: int) -> Iterator[TimeEntry]:
    """The entries of a time index. Raises OSError."""
    for number, (timestamp, relative) in enumerate(TimeIndex.ENTRY.iter_unpack(_whole(path, TimeIndex.ENTRY.size))):
        if number and not relative:
            return
        yield TimeEntry(timestamp, base_offset + relative)


def read_aborted_transactions(path: Path) -> Iterator[AbortedTransaction]:
    """The entries of a transaction index. Raises OSError."""
    return decode_entries(path.read_bytes())


def trailing_bytes(path: Path) -> int:
    """How many bytes of an index file are too few for one more entry. Raises OSError."""
    for index in (OffsetIndex, TimeIndex, TransactionIndex):
        if path.suffix == _SUFFIXES[index]:
            return path.stat().st_size % index.ENTRY.size
    raise ValueError(f"{path} is no index")


def _whole(path: Path, size: int) -> bytes:
    content = path.read_bytes()
    return content[: len(content) - len(content) % size]


_SUFFIXES = {OffsetIndex: ".index", TimeIndex: ".timeindex", TransactionIndex: ".txnindex"}
