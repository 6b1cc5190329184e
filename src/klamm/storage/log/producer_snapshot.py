"""Producer snapshots: `<offset>.snapshot`, the producer state of a log just before that offset.

    version  2   1
    crc      4   CRC-32C of all that follows
    count    4   then for each producer: producer id 8, epoch 2, last sequence 4, last offset 8, offset delta 4,
                 timestamp 8, coordinator epoch 4, first offset of its open transaction 8 (-1 for none)

A producer has an entry for each of its last batches, so that all of them are known after a start. Kafka writes only the
last one, and uses only the last one when it reads this file (ADR 50).

Source: `ProducerSnapshot.json` and `ProducerStateManager.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from pathlib import Path
from struct import Struct
from struct import error as struct_error
from typing import Final

from klamm.core.log.producer_entry import ProducerSnapshotEntry
from klamm.protocol.checksum import crc32c
from klamm.protocol.types import Millis, Offset, ProducerEpoch, ProducerId
from klamm.storage.atomic_file import write_atomically

__all__ = ["CorruptSnapshot", "decode_snapshot", "encode_snapshot", "read_snapshot", "write_snapshot"]

_VERSION: Final = 1
_HEADER: Final = Struct(">hI")
_COUNT: Final = Struct(">i")
_ENTRY: Final = Struct(">qhiqiqiq")


class CorruptSnapshot(Exception):
    """The file is not a producer snapshot, or its content has changed."""


def encode_snapshot(entries: list[ProducerSnapshotEntry]) -> bytes:
    """Returns the content of a snapshot file."""
    body = _COUNT.pack(len(entries)) + b"".join(_ENTRY.pack(*entry) for entry in entries)
    return _HEADER.pack(_VERSION, crc32c(body, 0)) + body


def decode_snapshot(content: bytes) -> list[ProducerSnapshotEntry]:
    """Returns the entries of a snapshot file. Raises `CorruptSnapshot`."""
    try:
        version, crc = _HEADER.unpack_from(content)
        (count,) = _COUNT.unpack_from(content, _HEADER.size)
    except struct_error as error:
        raise CorruptSnapshot(f"{len(content)} bytes are too few") from error
    if version != _VERSION:
        raise CorruptSnapshot(f"unknown version {version}")
    if crc != crc32c(memoryview(content)[_HEADER.size :], 0):
        raise CorruptSnapshot("the CRC does not match")
    body = content[_HEADER.size + _COUNT.size :]
    if len(body) != count * _ENTRY.size:
        raise CorruptSnapshot(f"{count} entries in {len(body)} bytes")
    return [
        ProducerSnapshotEntry(
            ProducerId(producer_id),
            ProducerEpoch(epoch),
            last_sequence,
            Offset(last_offset),
            offset_delta,
            Millis(timestamp),
            coordinator_epoch,
            Offset(transaction_offset),
        )
        for (
            producer_id,
            epoch,
            last_sequence,
            last_offset,
            offset_delta,
            timestamp,
            coordinator_epoch,
            transaction_offset,
        ) in _ENTRY.iter_unpack(body)
    ]


def read_snapshot(path: Path) -> list[ProducerSnapshotEntry]:
    """Reads a snapshot file and returns its entries. Raises `CorruptSnapshot`, OSError."""
    return decode_snapshot(path.read_bytes())


def write_snapshot(path: Path, entries: list[ProducerSnapshotEntry], *, sync: bool) -> None:
    """Writes the file atomically. Raises OSError."""
    write_atomically(path, encode_snapshot(entries), sync=sync)
