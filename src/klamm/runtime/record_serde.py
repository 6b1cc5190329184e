"""Records of `__consumer_offsets` as bytes.

A key begins with its record type, a value with its version, two bytes each; then the message. Types beyond those of
classic groups (consumer, share and streams groups) are not understood here yet: they are skipped, and stay in the
log. After Apache Kafka's `CoordinatorRecordSerde`.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, Protocol

from klamm.core.coordinator.contract import CoordinatorRecord
from klamm.protocol.codec import decode, encode
from klamm.protocol.errors import MalformedMessage
from klamm.protocol.message import Message
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue
from klamm.protocol.schema.legacy_offset_commit_key import LegacyOffsetCommitKey
from klamm.protocol.schema.legacy_offset_commit_value import LegacyOffsetCommitValue
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue

__all__ = ["GroupRecordSerde", "RecordSerde"]

_INT16: Final = Struct(">h")
_CLASSES: Final[dict[int, tuple[type[Message], type[Message]]]] = {
    0: (LegacyOffsetCommitKey, LegacyOffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
}


class RecordSerde(Protocol):
    """How the records of one internal topic become bytes and come back."""

    def serialize(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """Key and value; a tombstone has no value."""

    def deserialize(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        """The record, or None for a type that is not understood.

        Raises MalformedMessage for what is no record at all.
        """


class GroupRecordSerde:
    """The records of `__consumer_offsets` that classic groups are made of."""

    def serialize(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """Key and value; a tombstone has no value."""
        record_type = record.key.API_KEY
        assert record_type is not None
        key = _INT16.pack(record_type) + encode(record.key, 0)
        if record.value is None:
            return key, None
        return key, _INT16.pack(record.value_version) + encode(record.value, record.value_version)

    def deserialize(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        """The record, or None for a type that is not understood.

        Raises MalformedMessage for what is no record at all.
        """
        classes = _CLASSES.get(_first_int16(key))
        if classes is None:
            return None
        key_class, value_class = classes
        key_message, _ = decode(key_class, 0, key, 2)
        if value is None:
            return CoordinatorRecord(key_message, None, value_class.VERSIONS[1])
        version = _first_int16(value)
        value_message, _ = decode(value_class, version, value, 2)
        return CoordinatorRecord(key_message, value_message, version)


def _first_int16(data: bytes) -> int:
    if len(data) < _INT16.size:
        raise MalformedMessage("a coordinator record that is too short to say what it is")
    first: int = _INT16.unpack_from(data)[0]
    return first
