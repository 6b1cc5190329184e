"""Handwritten encoders for records of committed offsets, because a coordinator writes hundreds of thousands of them.

OffsetCommitKey and OffsetCommitValue version 4, with the same bytes as `coordinator_records` and the generated codec.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct, error
from typing import Final

from klamm.protocol.message import ZERO_UUID, UnsupportedField
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.varint import encode_unsigned_varint

__all__ = ["VALUE_VERSION", "encode_offset_commit_key", "encode_offset_commit_value"]

VALUE_VERSION: Final = 4

_RECORD_TYPE: Final = b"\x00\x01"
_LENGTH: Final = Struct(">h")
_PARTITION: Final = Struct(">i")
# Version, offset, leader epoch; metadata and time follow, then the tagged fields: none, or the topic id.
_HEAD: Final = Struct(">hqi")
_TIMESTAMP: Final = Struct(">q")
_NO_TAGGED_FIELDS: Final = b"\x00"
_TOPIC_ID_FOLLOWS: Final = b"\x01\x00\x10"
_EMPTY: Final = b"\x01"


def encode_offset_commit_key(key: OffsetCommitKey) -> bytes:
    """Encodes the key of a record. Raises UnsupportedField, as `encode` does."""
    try:
        return _group_and_topic(key.group, key.topic) + _PARTITION.pack(key.partition)
    except (error, UnicodeEncodeError) as problem:
        raise UnsupportedField(f"OffsetCommitKey: {problem}") from problem


def encode_offset_commit_value(value: OffsetCommitValue) -> bytes:
    """Encodes the value of a record in version 4. Raises UnsupportedField, as `encode` does."""
    try:
        encoded = _HEAD.pack(VALUE_VERSION, value.offset, value.leader_epoch)
        if value.metadata:
            metadata = value.metadata.encode()
            encoded += encode_unsigned_varint(len(metadata) + 1) + metadata
        else:
            encoded += _EMPTY
        encoded += _TIMESTAMP.pack(value.commit_timestamp)
    except (error, UnicodeEncodeError) as problem:
        raise UnsupportedField(f"OffsetCommitValue: {problem}") from problem
    if value.topic_id == ZERO_UUID:
        return encoded + _NO_TAGGED_FIELDS
    return encoded + _TOPIC_ID_FOLLOWS + value.topic_id


@lru_cache(maxsize=1024)
def _group_and_topic(group: str, topic: str) -> bytes:
    group_bytes, topic_bytes = group.encode(), topic.encode()
    return _RECORD_TYPE + _LENGTH.pack(len(group_bytes)) + group_bytes + _LENGTH.pack(len(topic_bytes)) + topic_bytes
