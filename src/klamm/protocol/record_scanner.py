"""The record scanner: finds the positions of the records in a batch, without creating an object for each record.

`batches_from` returns the whole batches of a fetch. `scan_records` decompresses one batch and returns flat arrays of
the positions where each record, its key, its value and its headers begin and end. `find_records` walks over the records
of a decompressed batch and returns only those that match a `RecordQuery`. `rewrite_batch` encodes the batch again with
only some of its records, as a cleaner does. `OffsetTable` stores the latest offset of each key of many batches in
bounded memory. All of them process whole batches at a time. The compiled form also writes records into the columns of a
table, for `klamm.spark.source.tasks.columns`.

The loops exist twice: compiled (`_record_scanner.pyx`), which also lets other threads run meanwhile, and in Python
(`_record_scanner_py.py`) for installations without a compiler. `KLAMM_PURE_PYTHON=1` in the environment selects the
latter; `IS_COMPILED` tells which form is in use.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.protocol.compression import DEFAULT_MAX_BYTES, Compression, OpenedData, compress, open_up_to
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_MASK,
    HEADER_SIZE_BYTES,
    BatchHeader,
    CorruptRecord,
    iterate_batches,
    pack_header,
    read_batch_header,
)
from klamm.protocol.records import require_magic
from klamm.protocol.types import NO_TIMESTAMP, Millis, Offset

if TYPE_CHECKING:
    from klamm.protocol import _record_scanner_py as _loops

    IS_COMPILED: bool
elif os.environ.get("KLAMM_PURE_PYTHON") == "1":
    from klamm.protocol import _record_scanner_py as _loops

    IS_COMPILED = False
else:
    try:
        from klamm.protocol import _record_scanner as _loops
        from klamm.protocol._record_scanner import RowEncoder as _built_from_this_source  # noqa: F401

        IS_COMPILED = True
    except ImportError:
        from klamm.protocol import _record_scanner_py as _loops

        IS_COMPILED = False

__all__ = [
    "IS_COMPILED",
    "BatchRun",
    "FoundRecord",
    "FoundRecords",
    "OffsetTable",
    "SMALLEST_RECORD_BYTES",
    "RecordQuery",
    "RecordSpans",
    "batches_from",
    "find_records",
    "open_batch",
    "rewrite_batch",
    "scan_records",
]

OffsetTable = _loops.OffsetTable

# Bytes in the arrays for one record: a timestamp of eight bytes, and seven numbers of four.
_SPAN_BYTES: Final = 36
SMALLEST_RECORD_BYTES: Final = 7
"""A length and six fields."""
_MAXIMUM_POSITION: Final = 0x7FFF_FFFF


@dataclass(slots=True, eq=False)
class RecordSpans:
    """The positions of one batch's records in `body`, one entry for each record.

    All arrays are memoryviews of 32-bit numbers, except as noted. Positions count bytes from the start of `body`. A key
    or value that is null has the end -1, and the start where it would begin. The body of an uncompressed batch is a
    view of the batch's own bytes, so the spans are invalid once that buffer is reused.
    """

    count: int
    body: memoryview
    """The records' bytes, decompressed."""
    offset_deltas: memoryview
    """To the batch's base offset."""
    timestamp_deltas: memoryview
    """To the batch's base timestamp, in milliseconds; 64 bits. Meaningless if the batch has LogAppendTime."""
    record_bounds: memoryview
    """One entry more than there are records: record i is between entries i and i + 1, with its length field."""
    key_starts: memoryview
    key_ends: memoryview
    value_starts: memoryview
    value_ends: memoryview
    headers_starts: memoryview
    """Positions of the headers' counts."""

    @property
    def record_starts(self) -> memoryview:
        """Position of each record's length field."""
        return self.record_bounds[:-1]

    @property
    def record_ends(self) -> memoryview:
        """Position of each record's end."""
        return self.record_bounds[1:]

    @property
    def headers_ends(self) -> memoryview:
        """Position of the end of each record's headers, which is the record's end."""
        return self.record_bounds[1:]


class BatchRun(NamedTuple):
    """A sequence of whole batches."""

    records: memoryview
    next_offset: Offset
    """The first offset after the batches."""


def batches_from(records: memoryview, offset: int) -> BatchRun | None:
    """Returns the whole batches of a Fetch response from the one that contains `offset`, not copied; None without any.

    The first batch may begin before the offset. A partial batch at the end is left out. The run also ends before an
    invalid header, which raises an error only if no whole batch precedes it.
    Raises `KafkaError`: CORRUPT_MESSAGE for an invalid header, UNSUPPORTED_FOR_MESSAGE_FORMAT for magic 0 and 1.
    """
    start, end, next_offset = _loops.find_batches(records, offset)
    if start < end:
        return BatchRun(records[start:end], Offset(next_offset))
    for _, header in iterate_batches(records[end:]):
        require_magic(header)
    return None


class RecordQuery(NamedTuple):
    """A search for records of a batch by timestamp, without a key, or out of sequence."""

    base_timestamp: int
    """The base of the batch's timestamp deltas."""
    append_time: int | None
    """The timestamp of all records if the batch has LogAppendTime, otherwise None."""
    oldest: int
    newest: int
    is_inside: bool
    """Whether timestamps from `oldest` to `newest` match; if False, all others except -1, which is no timestamp."""
    without_key: bool = False
    """Whether records without a key match too."""
    out_of_sequence: bool = False
    """Whether records whose offset delta is not their number match too."""
    first_offset_delta: int = 0
    """Records with a smaller offset delta are skipped."""

    def asks_for_time(self, timestamp: int) -> bool:
        """Returns whether records of that timestamp match."""
        is_between = self.oldest <= timestamp <= self.newest
        return is_between if self.is_inside else not is_between and timestamp != NO_TIMESTAMP


class FoundRecord(NamedTuple):
    """A record that matches a query. The length of a key or value that is null is -1."""

    number: int
    """The record's index in the batch, from 0."""
    offset_delta: int
    timestamp: int
    key_length: int
    value_length: int


class FoundRecords(NamedTuple):
    """The result of a walk over the records of a batch."""

    records: list[FoundRecord]
    walked: int
    """The number of records that were read."""
    is_complete: bool
    """Whether all records of the batch were read."""


def find_records(
    opened: OpenedData, count: int, query: RecordQuery, *, max_records: int, max_found: int
) -> Generator[None, None, FoundRecords]:
    """Walks over at most `max_records` records of a decompressed batch, and returns at most `max_found` that match.

    `count` is the number of records in the batch. Yields from time to time, so that a thread can release the
    interpreter's lock; the compiled form does not hold it during a step. If only the beginning of the batch was
    decompressed, the walk ends at the first record that is not whole. Raises `KafkaError` (INVALID_RECORD) for a
    malformed record, and for bytes after the last record.
    """
    body, is_whole = opened.data, opened.is_whole
    size = len(body)
    if count < 0 or (is_whole and count > size // SMALLEST_RECORD_BYTES):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{count} records in {size} bytes")
    end_index = min(count, max_records)
    position = index = 0
    found: list[FoundRecord] = []
    while index < end_index and len(found) < max_found:
        step_end = min(end_index, index + _loops.RECORDS_AT_ONCE)
        position, index, more, flaw = _loops.find_records(
            body, query, position, index, step_end, max_found - len(found)
        )
        found += map(FoundRecord._make, more)
        if flaw is not None:
            if not is_whole:
                break
            raise KafkaError(ErrorCode.INVALID_RECORD, f"the record at byte {position} of {size}: {flaw}")
        yield
    if index == count and (position != size or not is_whole):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{size - position} bytes follow the last of {count} records")
    return FoundRecords(found, index, index == count)


def scan_records(
    view: bytes | bytearray | memoryview,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> RecordSpans:
    """Returns the spans of the batch at `position`; the CRC is not checked. The caller may pass the header.

    `max_bytes` limits the size of the decompressed records, and separately the size of the arrays. Raises `KafkaError`
    as `records.decode_batch`: CORRUPT_MESSAGE for a bad header or codec or an exceeded limit, INVALID_RECORD for
    malformed records, UNSUPPORTED_FOR_MESSAGE_FORMAT for magic 0 and 1.
    """
    if header is None:
        header = read_batch_header(view, position)
    body = _open_body(view, position, header, max_bytes)
    count = header.records_count
    if max_bytes < count * _SPAN_BYTES <= len(body) // SMALLEST_RECORD_BYTES * _SPAN_BYTES:
        raise CorruptRecord(f"the arrays of {count} records in {len(body)} bytes take more than may be opened")
    return RecordSpans(count, body, *_loops.scan_body(body, count))


def _open_body(view: bytes | bytearray | memoryview, position: int, header: BatchHeader, max_bytes: int) -> memoryview:
    opened = open_batch(view, position, header, max_bytes)
    if not opened.is_whole or len(opened.data) > max_bytes:
        raise CorruptRecord(f"a batch of {header.size_bytes} bytes opens to more than {max_bytes} bytes")
    return opened.data


def open_batch(view: bytes | bytearray | memoryview, position: int, header: BatchHeader, max_bytes: int) -> OpenedData:
    """Decompresses the records of the batch at `position`; only the beginning if the output exceeds `max_bytes`.

    Raises `KafkaError`: CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT for magic 0 and 1.
    """
    require_magic(header)
    end = position + header.size_bytes
    if end > len(view):
        raise CorruptRecord(f"a batch of {header.size_bytes} bytes in {len(view) - position} bytes")
    payload = memoryview(view)[position + HEADER_SIZE_BYTES : end]
    opened = open_up_to(header.compression, payload, max_bytes)
    if len(opened.data) > _MAXIMUM_POSITION:
        raise CorruptRecord(f"a batch of {len(opened.data)} bytes is larger than a batch can be")
    return opened


def rewrite_batch(
    header: BatchHeader,
    batch: bytes | bytearray | memoryview,
    spans: RecordSpans,
    keep: bytes | bytearray | memoryview,
    *,
    new_delete_horizon_ms: Millis | None = None,
    marks_empty_transaction: bool = False,
    retain_empty: bool = False,
) -> bytes | memoryview:
    """Returns the batch with only those records for which `keep` has a byte other than zero.

    `batch` is the whole batch of `header`, `spans` the result of `scan_records` for it. Base offset, last offset delta,
    the records' offset deltas, leader epoch, producer id, epoch, base sequence and codec stay. Count, base and largest
    timestamp are set from the kept records; length and CRC are computed again.
    `new_delete_horizon_ms` is written into a batch that has no delete horizon yet and keeps a tombstone, or that is the
    marker of a transaction without remaining records (`marks_empty_transaction`) (KIP-534).
    If nothing changes, returns a view of the caller's bytes. If no record is kept, returns no bytes, or with
    `retain_empty` a header without records, which retains the last offset and the producer's sequence.
    Source: `MemoryRecords.filterTo` of Apache Kafka 4.3.
    """
    if len(keep) != spans.count:
        raise ValueError(f"{len(keep)} marks for {spans.count} records")
    kept_count, has_tombstone = _loops.count_kept(spans, keep)
    if not kept_count:
        return _empty_batch(header) if retain_empty else b""
    sets_horizon = (
        new_delete_horizon_ms is not None
        and (has_tombstone or marks_empty_transaction)
        and not header.has_delete_horizon
    )
    if kept_count == spans.count and not sets_horizon:
        return memoryview(batch)[: header.size_bytes]
    base_timestamp: int | None = None
    attributes = header.attributes
    if sets_horizon:
        base_timestamp = new_delete_horizon_ms
        attributes |= DELETE_HORIZON_MASK
    elif header.has_delete_horizon:
        base_timestamp = header.base_timestamp
    append_time = header.max_timestamp if header.timestamp_type else None
    payload, base_timestamp, max_timestamp = _loops.copy_kept(
        spans, keep, header.base_timestamp, base_timestamp, append_time
    )
    codec = header.compression
    closed = compress(codec, payload) if codec else payload
    new_header = header._replace(
        attributes=attributes,
        base_timestamp=Millis(base_timestamp),
        max_timestamp=Millis(max_timestamp),
        records_count=kept_count,
    )
    return pack_header(new_header, closed) + closed


def _empty_batch(header: BatchHeader) -> bytes:
    # As DefaultRecordBatch.writeEmptyHeader: no codec, no delete horizon, and the same largest timestamp.
    empty = header._replace(
        attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_MASK) | Compression.NONE,
        base_timestamp=NO_TIMESTAMP,
        records_count=0,
    )
    return pack_header(empty, b"")
