"""The record scanner: where the records of a batch lie in its bytes, without an object for any of them.

`batches_from` says which whole batches a fetch brought. `scan_records` opens one batch and says in flat arrays where
each record, its key, its value and its headers begin and end. `find_records` walks the records of an opened batch for
those that a `RecordQuery` asks for, and keeps nothing of the others. `rewrite_batch` closes the batch again with only
some of its records, as a cleaner does. `OffsetTable` remembers the latest offset of each key of many batches in a
bounded piece of memory. All of them go over whole batches at a time. The compiled form also lays records into the
columns of a table: `klamm.spark.source.columns` uses that.

The loops stand twice: compiled (`_record_scanner.pyx`), which also lets other threads run meanwhile, and in Python
(`_record_scanner_py.py`) for installations without a compiler. `KLAMM_PURE_PYTHON=1` in the environment takes the
latter; `IS_COMPILED` says which it is.
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
        from klamm.protocol._record_scanner import RECORDS_AT_ONCE as _built_from_this_source  # noqa: F401

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

# What one record takes in the arrays, in bytes: a timestamp of eight, and seven numbers of four.
_SPAN_BYTES: Final = 36
SMALLEST_RECORD_BYTES: Final = 7
"""A length and six fields."""
_MAXIMUM_POSITION: Final = 0x7FFF_FFFF


@dataclass(slots=True, eq=False)
class RecordSpans:
    """Where the records of one batch lie in `body`, one entry a record.

    All arrays are memoryviews of 32-bit numbers where nothing else is said. Positions count bytes from the start of
    `body`. A key or value that is null has -1 as its end; its start is where it would begin. The body of an
    uncompressed batch is a view of the batch's own bytes: whoever reuses that buffer is done with the spans.
    """

    count: int
    body: memoryview
    """The records' bytes, decompressed."""
    offset_deltas: memoryview
    """To the batch's base offset."""
    timestamp_deltas: memoryview
    """To the batch's base timestamp, in milliseconds; 64 bits. Without meaning where the batch has LogAppendTime."""
    record_bounds: memoryview
    """One entry more than there are records: record i lies between entries i and i + 1, its length field included."""
    key_starts: memoryview
    key_ends: memoryview
    value_starts: memoryview
    value_ends: memoryview
    headers_starts: memoryview
    """Where the count of the headers stands."""

    @property
    def record_starts(self) -> memoryview:
        """Where each record's length field stands."""
        return self.record_bounds[:-1]

    @property
    def record_ends(self) -> memoryview:
        """Where each record ends."""
        return self.record_bounds[1:]

    @property
    def headers_ends(self) -> memoryview:
        """Where the headers end, which is where the record ends."""
        return self.record_bounds[1:]


class BatchRun(NamedTuple):
    """Whole batches one behind the other."""

    records: memoryview
    next_offset: Offset
    """The first offset behind them."""


def batches_from(records: memoryview, offset: int) -> BatchRun | None:
    """The whole batches of a Fetch answer from the one that reaches `offset` on, not copied; None if there are none.

    The first may begin before the offset; a partial one at the end is left out, and so is what follows a header that
    can't be one, until it stands first.
    Raises `KafkaError`: CORRUPT_MESSAGE if that is so now, UNSUPPORTED_FOR_MESSAGE_FORMAT for magic 0 and 1.
    """
    start, end, next_offset = _loops.find_batches(records, offset)
    if start < end:
        return BatchRun(records[start:end], Offset(next_offset))
    for _, header in iterate_batches(records[end:]):
        require_magic(header)
    return None


class RecordQuery(NamedTuple):
    """Which records of a batch are looked for: those of some times, without a key, or out of sequence."""

    base_timestamp: int
    """What the batch's timestamp deltas are added to."""
    append_time: int | None
    """The timestamp of all records, where the batch has LogAppendTime."""
    oldest: int
    newest: int
    is_inside: bool
    """Whether timestamps from `oldest` to `newest` are looked for, or all others but -1, which is no timestamp."""
    without_key: bool = False
    """Whether records without a key are looked for, too."""
    out_of_sequence: bool = False
    """Whether records are looked for, too, whose offset delta is not their number."""
    first_offset_delta: int = 0
    """Records before it are passed over."""

    def asks_for_time(self, timestamp: int) -> bool:
        """Whether records of that timestamp are looked for."""
        is_between = self.oldest <= timestamp <= self.newest
        return is_between if self.is_inside else not is_between and timestamp != NO_TIMESTAMP


class FoundRecord(NamedTuple):
    """What is known of a record that was found. The length of a key or value that is null is -1."""

    number: int
    """Its place in the batch, from 0."""
    offset_delta: int
    timestamp: int
    key_length: int
    value_length: int


class FoundRecords(NamedTuple):
    """What a walk over the records of a batch has found."""

    records: list[FoundRecord]
    walked: int
    """How many records were walked over."""
    is_complete: bool
    """Whether the walk went over all records of the batch."""


def find_records(
    opened: OpenedData, count: int, query: RecordQuery, *, max_records: int, max_found: int
) -> Generator[None, None, FoundRecords]:
    """Walks over the records of an opened batch of `count` records, at most `max_records` of them, for those that are
    looked for, at most `max_found`.

    Yields from time to time, so that a thread can let others have the interpreter's lock; the compiled form does not
    hold it while it walks. Where only the beginning of the batch was opened, the walk ends at the first record that is
    not whole. Raises `KafkaError` (INVALID_RECORD) for what is no record, and for bytes behind the last record.
    """
    body, is_whole = opened
    size = len(body)
    if count < 0 or (is_whole and count > size // SMALLEST_RECORD_BYTES):
        raise KafkaError(ErrorCode.invalid_record, f"{count} records in {size} bytes")
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
            raise KafkaError(ErrorCode.invalid_record, f"the record at byte {position} of {size}: {flaw}")
        yield
    if index == count and (position != size or not is_whole):
        raise KafkaError(ErrorCode.invalid_record, f"{size - position} bytes follow the last of {count} records")
    return FoundRecords(found, index, index == count)


def scan_records(
    view: bytes | bytearray | memoryview,
    position: int = 0,
    header: BatchHeader | None = None,
    *,
    max_bytes: int = DEFAULT_MAX_BYTES,
) -> RecordSpans:
    """The spans of the batch at `position`, whose header the caller may have read already; the CRC is not looked at.

    `max_bytes` bounds what compressed records may open to, and the arrays once more. Raises `KafkaError` as
    `records.decode_batch`: CORRUPT_MESSAGE for a bad header or codec or too much in it, INVALID_RECORD for what is no
    record inside, UNSUPPORTED_FOR_MESSAGE_FORMAT for magic 0 and 1.
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
    """The records of the batch at `position`, one behind the other; the beginning of them if they are compressed and
    take more than `max_bytes`.

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
    """The batch with only those records for which `keep` holds a byte other than zero.

    `batch` is the whole batch of that header, `spans` what `scan_records` found in it. Base offset, last offset delta,
    the records' offset deltas, leader epoch, producer id, epoch, base sequence and codec stay; count, base and largest
    timestamp follow the records that are kept; length and CRC are made anew.
    `new_delete_horizon_ms` is written into a batch that has no delete horizon yet and keeps a tombstone, or that is the
    marker of a transaction of which no record is left (`marks_empty_transaction`) (KIP-534).
    If nothing changes the caller's bytes come back. If nothing is kept, no bytes, or with `retain_empty` a header
    without records that still tells the last offset and the producer's sequence.
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
    # As DefaultRecordBatch.writeEmptyHeader: no codec, no delete horizon, and the largest timestamp as it was.
    empty = header._replace(
        attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_MASK) | Compression.NONE,
        base_timestamp=NO_TIMESTAMP,
        records_count=0,
    )
    return pack_header(empty, b"")
