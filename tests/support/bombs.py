"""Record batches of a few kilobytes that decompress to a very large size; normal clients do not write them."""

from __future__ import annotations

from functools import cache

from klamm.protocol.compression import Compression, compress
from klamm.protocol.record_batch import BatchHeader, pack_header
from klamm.protocol.records import frame_records
from klamm.protocol.types import NO_TIMESTAMP, LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId
from klamm.protocol.varint import encode_varint

__all__ = ["KEYED_RECORD", "SMALLEST_RECORD", "batch_of", "record_in_sequence", "records_in_sequence"]

SMALLEST_RECORD = b"\x0c\x00\x00\x00\x01\x01\x00"
"""A record without key, value and headers, with the base timestamp and base offset of its batch."""
KEYED_RECORD = b"\x0e\x00\x00\x00\x02k\x01\x00"


@cache
def records_in_sequence(count: int) -> bytes:
    """Returns `count` records with a key each and consecutive offsets, as a client writes them."""
    return frame_records([(b"k", None)] * count).payload


def record_in_sequence(number: int) -> bytes:
    """Returns the record that follows `records_in_sequence(number)`."""
    body = b"\x00\x00" + encode_varint(number) + KEYED_RECORD[4:]
    return encode_varint(len(body)) + body


def batch_of(
    payload: bytes,
    records_count: int,
    codec: Compression = Compression.ZSTD,
    *,
    base_timestamp: int = NO_TIMESTAMP,
    max_timestamp: int | None = None,
) -> bytes:
    """Returns a batch with this payload and a valid CRC; its header claims `records_count` records."""
    header = BatchHeader(
        base_offset=Offset(0),
        batch_length=0,
        partition_leader_epoch=LeaderEpoch(-1),
        magic=2,
        crc=0,
        attributes=int(codec),
        last_offset_delta=records_count - 1,
        base_timestamp=Millis(base_timestamp),
        max_timestamp=Millis(base_timestamp if max_timestamp is None else max_timestamp),
        producer_id=ProducerId(-1),
        producer_epoch=ProducerEpoch(-1),
        base_sequence=-1,
        records_count=records_count,
    )
    closed = compress(codec, payload)
    return pack_header(header, closed) + closed
