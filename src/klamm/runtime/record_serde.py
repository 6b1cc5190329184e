"""Encodes and decodes the records of `__consumer_offsets` for the group coordinator's shard.

The shard knows the record types of offsets and of each kind of group in `core/group/group_kinds.py`. Other types (share
and streams groups) are skipped, and stay in the log.
"""

from __future__ import annotations

from functools import cache
from typing import Final, Protocol

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.protocol.coordinator_records import decode_group_record, encode_record_key, encode_record_value
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC
from klamm.protocol.offset_commit_records import (
    VALUE_VERSION,
    encode_offset_commit_key,
    encode_offset_commit_value,
)
from klamm.protocol.schema.legacy_offset_commit_key import LegacyOffsetCommitKey
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue

__all__ = ["GroupRecordSerde", "RecordSerde"]


@cache
def _understood() -> frozenset[bytes]:
    """Returns the prefixes of the keys that the shard knows: those of offsets, and those of each kind of group."""
    from klamm.core.group.group_kinds import GROUP_KINDS  # imported with the first group, as the shard is

    keys = {LegacyOffsetCommitKey, OffsetCommitKey}.union(*(kind.store.keys for kind in GROUP_KINDS))
    return frozenset((key_class.API_KEY or 0).to_bytes(2, "big") for key_class in keys)


class RecordSerde(Protocol):
    """Encodes and decodes the records of one internal topic."""

    @property
    def topic(self) -> str:
        """The name of the internal topic."""

    @property
    def owner_word(self) -> str:
        """The noun for the id that the keys of all its records begin with, such as "group"."""

    def serialize(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """Returns key and value; a tombstone has no value."""

    def deserialize(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        """Returns the record, or None for an unknown type.

        Raises MalformedMessage for malformed bytes and for an unknown version of the value.
        """


class GroupRecordSerde:
    """Encodes and decodes the records of groups of all kinds, and of their offsets."""

    topic: Final = OFFSETS_TOPIC
    owner_word: Final = "group"

    def serialize(self, record: CoordinatorRecord) -> tuple[bytes, bytes | None]:
        """Returns key and value; a tombstone has no value."""
        key, value = record.key, record.value
        if (
            isinstance(key, OffsetCommitKey)
            and isinstance(value, OffsetCommitValue)
            and record.value_version == VALUE_VERSION
        ):
            return encode_offset_commit_key(key), encode_offset_commit_value(value)
        encoded_key = encode_record_key(key)
        return encoded_key, None if value is None else encode_record_value(value, record.value_version)

    def deserialize(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        """Returns the record, or None for an unknown type.

        Raises MalformedMessage for malformed bytes and for an unknown version of the value.
        """
        if len(key) >= 2 and key[:2] not in _understood():
            return None
        decoded = decode_group_record(key, value)
        if decoded is None:
            return None
        version = -1 if value is None else int.from_bytes(value[:2], "big")
        return CoordinatorRecord(*decoded, version)
