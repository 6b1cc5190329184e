"""The fast path for loading committed offsets from the log into the store.

Nearly all records of `__consumer_offsets` are offsets outside of transactions, in the two versions of the value that
brokers have written for years (3, and 4 with topic ids). This module reads them with a few `struct` calls and without
intermediate objects. All other records take the slow path through the generated codec, which also reports errors.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final

from klamm.core.group.group_store import GroupStore
from klamm.core.group.offsets.committed_offset import NO_EXPIRY, PartitionOffsets, pack
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.types import Offset, ProducerId

__all__ = ["OffsetLoader"]

_OFFSET_COMMIT_KEY: Final = b"\x00\x01"
_LENGTH: Final = Struct(">h")
_PARTITION_BYTES: Final = 4

# Version, offset, leader epoch; the metadata and the tail follow.
_HEAD: Final = Struct(">hqi")
_TIMESTAMP: Final = Struct(">q")
# Version 4: time of the commit, number of tagged fields, tag and size of the only one, topic id.
_TAIL_OF_4: Final = Struct(">qBBB16s")
_TAIL_OF_4_WITHOUT_TOPIC_ID: Final = Struct(">qB")
_TOPIC_ID_FIELD: Final = (1, 0, 16)
# All of version 4 without metadata and with a topic id, like most values.
_PLAIN: Final = Struct(">hqixq3x16s")
_PLAIN_FIELD: Final = bytes(_TOPIC_ID_FIELD)
_UNKNOWN: Final = (0, ZERO_UUID, -1)
"""An unknown tail; its end matches no value's length."""


class OffsetLoader:
    """Puts offsets into the store while a log is loaded, and caches the target of each group and topic."""

    __slots__ = ("_offsets", "_store")

    def __init__(self, store: GroupStore) -> None:
        self._store = store
        self._offsets: dict[bytes, PartitionOffsets] = {}
        """By the record's key without the partition (group and topic)."""

    def replay(self, offset: Offset, producer_id: ProducerId, key: bytes, value: bytes | None) -> bool:
        """Applies a record if it is an offset of the common kind; returns False to leave it to the caller."""
        if value is None:
            # A tombstone may remove an offset or a whole group from the store, so the cached targets are not valid.
            self._offsets.clear()
            return False
        if key[:2] != _OFFSET_COMMIT_KEY or producer_id != -1:
            return False
        packed = _packed(offset, value)
        if packed is None:
            return False
        where = key[:-_PARTITION_BYTES]
        offsets = self._offsets.get(where)
        if offsets is None:
            names = _names(where)
            if names is None:
                return False
            self._store.note_group(names[0])
            offsets = self._offsets[where] = self._store.offsets_for(*names)
        offsets.put_packed(int.from_bytes(key[-_PARTITION_BYTES:], "big", signed=True), packed)
        return True


def _names(where: bytes) -> tuple[str, str] | None:
    """Returns group and topic from a key without its partition; None if the key contains anything else."""
    try:
        group_end = 4 + _LENGTH.unpack_from(where, 2)[0]
        topic_end = group_end + 2 + _LENGTH.unpack_from(where, group_end)[0]
        if not 4 <= group_end <= topic_end - 2 or topic_end != len(where):
            return None
        return where[4:group_end].decode(), where[group_end + 2 :].decode()
    except (error, UnicodeDecodeError):
        return None


def _packed(record_offset: int, value: bytes) -> bytes | None:
    """Returns a value in the store's packed form; None if it is not of the common kind."""
    if len(value) == _PLAIN.size and value[14] == 1 and value[23:26] == _PLAIN_FIELD:
        version, offset, leader_epoch, timestamp, topic_id = _PLAIN.unpack(value)
        if version == 4:
            return pack(record_offset, timestamp, NO_EXPIRY, offset, leader_epoch, topic_id, b"")
    try:
        version, offset, leader_epoch = _HEAD.unpack_from(value)
        if version == 4:
            # The length is stored plus one, as a varint; from 128 on it has a second byte.
            metadata_from, metadata_end = 15, 14 + value[14]
            timestamp, topic_id, end = _tail_of_4(value, metadata_end) if value[14] < 128 else _UNKNOWN
        elif version == 3:
            metadata_from = 16
            metadata_end = metadata_from + _LENGTH.unpack_from(value, 14)[0]
            (timestamp,) = _TIMESTAMP.unpack_from(value, metadata_end)
            topic_id, end = ZERO_UUID, metadata_end + _TIMESTAMP.size
        else:
            return None
    except (error, IndexError):
        return None
    metadata = value[metadata_from:metadata_end]
    # Metadata that is not ASCII may be invalid UTF-8.
    if end != len(value) or metadata_end < metadata_from or not metadata.isascii():
        return None
    return pack(record_offset, timestamp, NO_EXPIRY, offset, leader_epoch, topic_id, metadata)


def _tail_of_4(value: bytes, start: int) -> tuple[int, bytes, int]:
    """Returns the time of the commit, the topic id, and the position of their end."""
    end = start + _TAIL_OF_4.size
    if end == len(value):
        timestamp, field_count, tag, size, topic_id = _TAIL_OF_4.unpack_from(value, start)
        return (timestamp, topic_id, end) if (field_count, tag, size) == _TOPIC_ID_FIELD else _UNKNOWN
    timestamp, field_count = _TAIL_OF_4_WITHOUT_TOPIC_ID.unpack_from(value, start)
    return _UNKNOWN if field_count else (timestamp, ZERO_UUID, start + _TAIL_OF_4_WITHOUT_TOPIC_ID.size)
