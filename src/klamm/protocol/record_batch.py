"""The header of a record batch (magic 2), which the log reads without decoding the records.

A batch has the same bytes in the protocol and on disk. Its header is 61 bytes long:

    base offset            8   outside the CRC, set by the leader
    batch length           4   bytes that follow this field
    partition leader epoch 4   outside the CRC, set by the leader
    magic                  1   2
    CRC-32C                4   of all bytes from the attributes to the end
    attributes             2   compression, timestamp type, transactional, control, delete horizon
    last offset delta      4
    base timestamp         8   or the delete horizon, if the attributes say so
    max timestamp          8
    producer id            8
    producer epoch         2
    base sequence          4
    records count          4

Source of the layout: `org.apache.kafka.common.record.internal.DefaultRecordBatch` of Apache Kafka 4.3 (KIP-98).
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct, error
from typing import Final, NamedTuple

from klamm.protocol.checksum import crc32c
from klamm.protocol.compression import COMPRESSION_BY_ID, Compression
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId

__all__ = [
    "BATCH_HEADER",
    "BatchHeader",
    "CONTROL_MASK",
    "CorruptRecord",
    "HEADER_SIZE_BYTES",
    "LOG_OVERHEAD_BYTES",
    "MAGIC",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "TRANSACTIONAL_MASK",
    "batch_crc_is_valid",
    "increment_sequence",
    "iterate_batches",
    "pack_header",
    "read_batch_header",
    "restamp",
]

BATCH_HEADER: Final = Struct(">qiibIhiqqqhii")
"""All fields of the header, in order."""
HEADER_SIZE_BYTES: Final = 61
LOG_OVERHEAD_BYTES: Final = 12
"""Size of base offset and batch length, which the batch length does not count."""
MAGIC: Final = 2
NO_PRODUCER_ID: Final = ProducerId(-1)
NO_PRODUCER_EPOCH: Final = ProducerEpoch(-1)
NO_SEQUENCE: Final = -1

CRC_START: Final = 21
"""Position of the attributes, the first byte that the CRC covers."""

_MINIMUM_BATCH_LENGTH: Final = HEADER_SIZE_BYTES - LOG_OVERHEAD_BYTES
# The smallest possible message, of magic 0: CRC, magic, attributes, key length, value length.
_MINIMUM_LEGACY_LENGTH: Final = 14
_LEGACY_HEADER: Final = Struct(">qiIbb")
_PREFIX: Final = Struct(">qii")
_UP_TO_CRC: Final = Struct(">qiibI")
_COVERED: Final = Struct(">hiqqqhii")
_MAXIMUM_SEQUENCE: Final = 0x7FFF_FFFF

# Bits of the attributes.
COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
DELETE_HORIZON_MASK: Final = 0x40


class CorruptRecord(KafkaError):
    """The error for bytes that are not a valid record batch; its code is CORRUPT_MESSAGE."""

    __slots__ = ()

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CORRUPT_MESSAGE, message)


class BatchHeader(NamedTuple):
    """The fields of a batch's header as read from its bytes; see `read_batch_header` for the few that are checked."""

    base_offset: Offset
    batch_length: int
    partition_leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: Millis
    max_timestamp: Millis
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    records_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch in bytes, header included."""
        return self.batch_length + LOG_OVERHEAD_BYTES

    @property
    def last_offset(self) -> Offset:
        """Offset of the batch's last record at the time of writing (a cleaner may have dropped the record since)."""
        return Offset(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> Offset:
        """First offset after the batch."""
        return Offset(self.base_offset + self.last_offset_delta + 1)

    @property
    def compression(self) -> Compression:
        """Codec of the records. Raises `CorruptRecord` for an unknown number."""
        codec = COMPRESSION_BY_ID.get(self.attributes & COMPRESSION_MASK)
        if codec is None:
            raise CorruptRecord(f"unknown compression codec {self.attributes & COMPRESSION_MASK}")
        return codec

    @property
    def timestamp_type(self) -> int:
        """0 if the producer set the records' timestamps (CreateTime), 1 if the leader did (LogAppendTime)."""
        return (self.attributes & TIMESTAMP_TYPE_MASK) >> 3

    @property
    def is_transactional(self) -> bool:
        """Whether the batch belongs to a transaction, as data or as its marker."""
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch contains control records, which applications do not see."""
        return self.attributes & CONTROL_MASK != 0

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the base timestamp is the time after which a cleaner may drop tombstones and markers (KIP-534)."""
        return self.attributes & DELETE_HORIZON_MASK != 0

    @property
    def has_producer_id(self) -> bool:
        """Whether an idempotent or transactional producer wrote the batch."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap from 2**31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    def with_compression(self, compression: Compression) -> BatchHeader:
        """Returns the header with another codec; `pack_header` then sets length and CRC for the new payload."""
        return self._replace(attributes=self.attributes & ~COMPRESSION_MASK | compression)

    def with_log_append_time(self, now: Millis) -> BatchHeader:
        """Returns the header with `now` as LogAppendTime, which all records get; `pack_header` sets the CRC."""
        return self._replace(attributes=self.attributes | TIMESTAMP_TYPE_MASK, max_timestamp=now)


def increment_sequence(sequence: int, increment: int) -> int:
    """Returns the sequence `increment` records after `sequence`; sequences wrap from 2**31 - 1 to 0."""
    return (sequence + increment) & _MAXIMUM_SEQUENCE


def read_batch_header(view: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Returns the header of the batch that starts at `position`; the batch itself may reach beyond the view.

    For a message of magic 0 or 1, base offset, length, magic, CRC and attributes of the result are valid, and all other
    fields are -1, so that the caller can refuse it with its own error.
    Raises `CorruptRecord` for fewer bytes than a header, a length that is too small, or an unknown magic.
    """
    try:
        header = BatchHeader._make(BATCH_HEADER.unpack_from(view, position))
    except error:
        header = None
    if header is not None and header.magic == MAGIC and header.batch_length >= _MINIMUM_BATCH_LENGTH:
        return header
    return _read_unusual_header(view, position)


def _read_unusual_header(view: bytes | bytearray | memoryview, position: int) -> BatchHeader:
    remaining = len(view) - position
    if remaining < _LEGACY_HEADER.size:
        raise CorruptRecord(f"{remaining} bytes are too few for a record batch")
    base_offset, batch_length, crc, magic, attributes = _LEGACY_HEADER.unpack_from(view, position)
    if magic not in (0, 1, MAGIC):
        raise CorruptRecord(f"invalid magic {magic}")
    if batch_length < (_MINIMUM_BATCH_LENGTH if magic == MAGIC else _MINIMUM_LEGACY_LENGTH):
        raise CorruptRecord(f"a length of {batch_length} bytes is less than a record batch of magic {magic} needs")
    if magic == MAGIC:
        raise CorruptRecord(f"{remaining} bytes are too few for a record batch")
    none = -1
    return BatchHeader(
        base_offset,
        batch_length,
        LeaderEpoch(none),
        magic,
        crc,
        attributes,
        none,
        Millis(none),
        Millis(none),
        NO_PRODUCER_ID,
        NO_PRODUCER_EPOCH,
        NO_SEQUENCE,
        none,
    )


def iterate_batches(view: bytes | bytearray | memoryview) -> Iterator[tuple[int, BatchHeader]]:
    """Yields position and header of each whole batch in the view; a partial batch at the end is left out.

    Raises `CorruptRecord` at the first invalid header.
    """
    position = 0
    end = len(view)
    while (remaining := end - position) >= LOG_OVERHEAD_BYTES:
        if remaining < HEADER_SIZE_BYTES:
            batch_length = int.from_bytes(view[position + 8 : position + LOG_OVERHEAD_BYTES], "big", signed=True)
            if batch_length + LOG_OVERHEAD_BYTES > remaining:
                return
        header = read_batch_header(view, position)
        next_position = position + header.batch_length + LOG_OVERHEAD_BYTES
        if next_position > end:
            return
        yield position, header
        position = next_position


def batch_crc_is_valid(view: bytes | bytearray | memoryview, position: int, header: BatchHeader) -> bool:
    """Returns whether the CRC-32C in the header matches the batch; False if the batch reaches beyond the view."""
    end = position + header.batch_length + LOG_OVERHEAD_BYTES
    if end > len(view):
        return False
    return crc32c(memoryview(view)[position + CRC_START : end], 0) == header.crc


def pack_header(header: BatchHeader, payload: bytes | bytearray | memoryview) -> bytes:
    """Encodes a header with length and CRC for the payload, which is the records, compressed or not."""
    base_offset, _, leader_epoch, magic, _, *covered = header
    tail = _COVERED.pack(*covered)
    crc = crc32c(payload, crc32c(tail, 0))
    return _UP_TO_CRC.pack(base_offset, len(payload) + _MINIMUM_BATCH_LENGTH, leader_epoch, magic, crc) + tail


def restamp(
    batch: bytes | bytearray | memoryview, base_offset: Offset, leader_epoch: LeaderEpoch
) -> tuple[bytes, memoryview]:
    """Returns the batch for the leader's log, in two parts to be written one after the other.

    The first 16 bytes are new (base offset, length, partition leader epoch: all outside the CRC). The rest is a view of
    the caller's bytes, not a copy.
    """
    view = memoryview(batch)
    batch_length = int.from_bytes(view[8:12], "big", signed=True)
    return _PREFIX.pack(base_offset, batch_length, leader_epoch), view[16:]
