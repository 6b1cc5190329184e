"""Encodes and decodes the records of `__cluster_metadata`, the log of Apache Kafka's controllers (KIP-500).

A value is a frame version (unsigned varint, 1), the record type, the record's version (both unsigned varints), and the
record. There are no keys. Snapshots of that log (`….checkpoint`) and the initial file of a cluster
(`bootstrap.checkpoint`) contain the same records between a header and a footer, which are control records.

Source: `server/common/serialization/AbstractApiMessageSerde.java`, `common/record/internal/ControlRecordUtils.java` and
`raft/internals/BatchBuilder.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from functools import cache
from importlib import import_module
from struct import Struct
from typing import Final, NamedTuple

from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import Message
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.record_types import METADATA_RECORDS
from klamm.protocol.types import LeaderEpoch, Millis, Offset
from klamm.protocol.varint import encode_unsigned_varint, read_unsigned_varint

__all__ = [
    "ControlRecordType",
    "MetadataRecord",
    "decode_control_record",
    "decode_metadata_record",
    "encode_control_batch",
    "encode_metadata_batch",
    "encode_metadata_record",
]

_FRAME_VERSION: Final = 1
_LARGEST_SHORT: Final = 0x7FFF
_KEY: Final = Struct(">hh")
_SCHEMA: Final = "klamm.protocol.schema"


class ControlRecordType(IntEnum):
    """The type of a control record: the second number of its key (`ControlRecordType.JAVA`)."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_CONTROL_CLASSES: Final = {
    ControlRecordType.LEADER_CHANGE: ("leader_change_message", "LeaderChangeMessage"),
    ControlRecordType.SNAPSHOT_HEADER: ("snapshot_header_record", "SnapshotHeaderRecord"),
    ControlRecordType.SNAPSHOT_FOOTER: ("snapshot_footer_record", "SnapshotFooterRecord"),
    ControlRecordType.KRAFT_VERSION: ("k_raft_version_record", "KRaftVersionRecord"),
    ControlRecordType.KRAFT_VOTERS: ("voters_record", "VotersRecord"),
}


class MetadataRecord(NamedTuple):
    """A record and the version of its encoding."""

    message: Message
    version: int


def encode_metadata_record(message: Message, version: int) -> bytes:
    """Encodes the value of a record; `message` must have the type `metadata`. Raises ValueError, and as `encode`."""
    if message.API_KEY is None or message.TYPE != "metadata":
        raise ValueError(f"{message.NAME} is no record of the metadata log")
    prefix = (_FRAME_VERSION, message.API_KEY, version)
    return b"".join(map(encode_unsigned_varint, prefix)) + encode(message, version)


def decode_metadata_record(value: bytes) -> MetadataRecord:
    """Decodes the record in a value. Raises `MalformedMessage` for malformed bytes, unknown types and versions."""
    try:
        frame_version, position = read_unsigned_varint(value, 0)
        record_type, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
    except IndexError:
        raise MalformedMessage("a metadata record too short to say what it is") from None
    if frame_version != _FRAME_VERSION:
        raise MalformedMessage(f"a metadata record of frame version {frame_version}, only {_FRAME_VERSION} is known")
    row = METADATA_RECORDS.get(record_type)
    if row is None:
        raise MalformedMessage(f"a metadata record of type {record_type}, which this version does not know")
    cls = _class(*row)
    low, high = cls.VERSIONS
    if not low <= version <= high:
        raise MalformedMessage(f"{cls.NAME} has versions {low} to {high}, not {version}")
    message, end = decode(cls, version, value, position)
    if end != len(value):
        raise MalformedMessage(f"{len(value) - end} bytes follow a {cls.NAME}")
    return MetadataRecord(message, version)


def decode_control_record(key: bytes | None, value: bytes | None) -> tuple[int, Message | None]:
    """Returns the type of a control record, and its message if it has one (transaction markers have none).

    Raises `MalformedMessage`.
    """
    if key is None or len(key) < _KEY.size:
        raise MalformedMessage("a control record without a version and type")
    record_type: int = _KEY.unpack_from(key)[1]
    row = _CONTROL_CLASSES.get(ControlRecordType(record_type)) if record_type in _TYPES else None
    if row is None:
        return record_type, None
    cls = _class(*row)
    low, high = cls.VERSIONS
    # Each of these messages begins with its own version.
    version = int.from_bytes((value or b"")[:2], "big", signed=True)
    return record_type, decode(cls, min(max(version, low), high), value or b"")[0]


def encode_control_batch(
    record_type: ControlRecordType, message: Message, *, offset: Offset, epoch: LeaderEpoch, now_ms: Millis
) -> bytes:
    """Encodes a batch with one control record. Raises as `encode`."""
    version = int(getattr(message, "version", 0))
    record = (now_ms, _KEY.pack(0, record_type), encode(message, version), ())
    return encode_batch([record], base_offset=offset, partition_leader_epoch=epoch, is_control=True)


def encode_metadata_batch(
    records: Iterable[MetadataRecord], *, offset: Offset, epoch: LeaderEpoch, now_ms: Millis
) -> bytes:
    """Encodes a batch of records of the metadata log. Raises as `encode_metadata_record`."""
    return encode_batch(
        [(now_ms, None, encode_metadata_record(message, version), ()) for message, version in records],
        base_offset=offset,
        partition_leader_epoch=epoch,
    )


_TYPES: Final = frozenset(map(int, ControlRecordType))


@cache
def _class(module: str, name: str) -> type[Message]:
    found: type[Message] = getattr(import_module(f"{_SCHEMA}.{module}"), name)
    return found
