"""Records of `__consumer_offsets` as the group coordinator's shard takes them.

Types beyond those of classic groups (consumer, share and streams groups) are not understood by the shard yet: they are
skipped, and stay in the log.
"""

from __future__ import annotations

from typing import Final, Protocol

from klamm.core.coordinator.contract import CoordinatorRecord
from klamm.protocol.coordinator_records import decode_group_record, encode_record_key, encode_record_value
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.legacy_offset_commit_key import LegacyOffsetCommitKey
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey

__all__ = ["GroupRecordSerde", "RecordSerde"]

_UNDERSTOOD: Final = frozenset(
    key_class.API_KEY.to_bytes(2, "big") for key_class in (LegacyOffsetCommitKey, OffsetCommitKey, GroupMetadataKey)
)


class RecordSerde(Protocol):
    """How the records of one internal topic become bytes and come back."""

    def serialize(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """Key and value; a tombstone has no value."""

    def deserialize(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        """The record, or None for a type that is not understood.

        Raises MalformedMessage for what is no record at all.
        """


class GroupRecordSerde:
    """The records that classic groups and their offsets are made of."""

    def serialize(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """Key and value; a tombstone has no value."""
        key = encode_record_key(record.key)
        return key, None if record.value is None else encode_record_value(record.value, record.value_version)

    def deserialize(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        """The record, or None for a type that is not understood.

        Raises MalformedMessage for what is no record at all.
        """
        if len(key) >= 2 and key[:2] not in _UNDERSTOOD:
            return None
        decoded = decode_group_record(key, value)
        if decoded is None:
            return None
        version = -1 if value is None else int.from_bytes(value[:2], "big")
        return CoordinatorRecord(*decoded, version)
