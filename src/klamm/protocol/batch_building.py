"""Builds record batches from the rows of a table, without an object for each record.

The columns are in the memory layout of Apache Arrow, as buffers, so this module needs no Arrow library:

- a `BytesColumn` has 32-bit bounds (one more than entries), the bytes, one bit for each entry (0 for null; None without
  nulls), and the index of its first entry, since a column may be a slice of a larger one;
- a `HeadersColumn` has the bounds, bits and first index of the rows' lists, then the keys and values of all headers;
- a `TimestampColumn` has 64-bit milliseconds and the index of the first entry.

`BatchBuilder.place` gives each row its partition, `batches` yields finished batches, partition by partition. The
batches have base offset 0 and no producer: the sender sets producer id, epoch and sequence, and computes the CRC again.

The loops exist twice: compiled (`_record_scanner_encode.pxi`), where other threads run meanwhile, and in Python
(`_row_encoder_py.py`); `KLAMM_PURE_PYTHON=1` selects the latter.
Source: `DefaultRecord.writeTo`, `DefaultRecordBatch`, `BuiltInPartitioner` of Apache Kafka 4.3.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from klamm.protocol.compression import Compression, Compressor, compress
from klamm.protocol.record_batch import (
    HEADER_SIZE_BYTES,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    BatchHeader,
    pack_header,
)
from klamm.protocol.record_scanner import IS_COMPILED
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex

if TYPE_CHECKING:
    from klamm.protocol import _row_encoder_py as _loops
elif IS_COMPILED:
    from klamm.protocol import _record_scanner as _loops
else:
    from klamm.protocol import _row_encoder_py as _loops

__all__ = [
    "BatchBuilder",
    "BuiltBatch",
    "BytesColumn",
    "HeadersColumn",
    "RecordTooLarge",
    "TimestampColumn",
]

if TYPE_CHECKING:
    from typing_extensions import Buffer

BytesColumn: TypeAlias = "tuple[Buffer, Buffer, Buffer | None, int]"
HeadersColumn: TypeAlias = "tuple[Buffer, Buffer | None, int, BytesColumn, BytesColumn]"
TimestampColumn: TypeAlias = "tuple[Buffer, int]"

_NO_PLACE: Final = -1
"""The place of a row that has no partition yet."""
_BEGINNING: Final = Millis(0)
_NO_EPOCH: Final = LeaderEpoch(-1)
_LARGEST_BATCH_BYTES: Final = 2**31 - 1


class RecordTooLarge(ValueError):
    """A row is larger than a request may be."""

    def __init__(self, row: int, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"the record of row {row} has {size_bytes} bytes, more than the limit of {limit_bytes}")
        self.row = row
        self.size_bytes = size_bytes


class BuiltBatch(NamedTuple):
    """A finished batch for a partition."""

    partition: PartitionIndex
    records_count: int
    data: bytes


class BatchBuilder:
    """Builds the batches of one table of `count` rows.

    Without `timestamps`, all records have the timestamp `timestamp_ms`. A column that is None is null in every record.
    Raises ValueError if a buffer is too short for its column; wrong bounds of an entry raise it when the row is read.
    """

    def __init__(
        self,
        count: int,
        values: BytesColumn | None,
        *,
        keys: BytesColumn | None = None,
        headers: HeadersColumn | None = None,
        timestamps: TimestampColumn | None = None,
        timestamp_ms: Millis = _BEGINNING,
    ) -> None:
        self._count = count
        self._encoder = _loops.RowEncoder(count, values, keys, headers, timestamps, timestamp_ms)

    def no_places(self) -> array[int]:
        """Returns an array for `place` in which no row has a partition."""
        return array("i", [_NO_PLACE]) * self._count

    def place(self, places: Buffer, partition_count: int, *, by_crc32: bool = False) -> int:
        """Gives a partition to each row with a key that has none in `places`, 32-bit numbers that may be changed.

        The partition is that of Java's producer (murmur2), or of librdkafka's `consistent_random` (CRC-32, which takes
        an empty key for none). Returns the number of rows that still have none, because they have no key.
        """
        left: int = self._encoder.place(places, partition_count, by_crc32)
        return left

    def batches(
        self,
        places: Buffer,
        partition_count: int,
        *,
        batch_size_bytes: int,
        largest_bytes: int = _LARGEST_BATCH_BYTES,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        compressor: Compressor = compress,
    ) -> Iterator[BuiltBatch]:
        """Yields the batches of all rows, partition by partition; the rows of a partition keep their order.

        A batch has at most `batch_size_bytes` before compression, or one record. Raises `RecordTooLarge` for a record
        that does not fit into a batch of `largest_bytes`, and ValueError for a row whose partition does not exist.
        """
        order, starts = _loops.rows_by_partition(places, self._count, partition_count)
        target_bytes = max(batch_size_bytes - HEADER_SIZE_BYTES, 1)
        room_bytes = min(largest_bytes, _LARGEST_BATCH_BYTES) - HEADER_SIZE_BYTES
        for partition in range(partition_count):
            first, end = starts[partition], starts[partition + 1]
            while first < end:
                behind, body, base_ms, highest_ms, row, size_bytes = self._encoder.encode(
                    order, first, end, target_bytes, room_bytes
                )
                if body is None:
                    raise RecordTooLarge(row, size_bytes, room_bytes)
                count = behind - first
                codec, records = compression, body
                if codec is not Compression.NONE:
                    records = compressor(codec, body, compression_level)
                    if len(records) > room_bytes:  # the records do not compress, and fit as they are
                        codec, records = Compression.NONE, body
                header = BatchHeader(
                    base_offset=Offset(0),
                    batch_length=0,
                    partition_leader_epoch=_NO_EPOCH,
                    magic=MAGIC,
                    crc=0,
                    attributes=codec,
                    last_offset_delta=count - 1,
                    base_timestamp=Millis(base_ms),
                    max_timestamp=Millis(highest_ms),
                    producer_id=NO_PRODUCER_ID,
                    producer_epoch=NO_PRODUCER_EPOCH,
                    base_sequence=NO_SEQUENCE,
                    records_count=count,
                )
                yield BuiltBatch(PartitionIndex(partition), count, pack_header(header, records) + records)
                first = behind
