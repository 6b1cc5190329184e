"""Decodes a Fetch request from a view of its bytes.

The common case (few topics, short names, no forgotten topics, no tagged fields) is read inline, because function calls
dominate the cost. A consumer in a fetch session sends such a request after every response.
Layout: FetchRequest.json of Apache Kafka 4.3. See `fetch_messages` for the fields.
"""

from __future__ import annotations

from struct import Struct, error
from typing import Final

from klamm.protocol.errors import MalformedMessage
from klamm.protocol.fetch_messages import (
    NO_HIGH_WATERMARK,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from klamm.protocol.primitives import (
    check_count,
    read_compact_nullable_string,
    read_compact_string,
    read_string,
)
from klamm.protocol.types import ZERO_TOPIC_ID
from klamm.protocol.varint import read_tagged_fields, read_unsigned_varint, skip_tagged_fields

__all__ = ["decode_fetch_request"]

_SESSIONS_FROM: Final = 7
_LEADER_EPOCH_FROM: Final = 9
_RACK_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13
_REPLICA_STATE_FROM: Final = 15

# Each layout ends with the number of topics; a varint usually has only one byte.
_HEAD_V4: Final = Struct(">iiiibi")
_HEAD_V7: Final = Struct(">iiiibiii")
_HEAD_V12: Final = Struct(">iiiibiiB")
_HEAD_V15: Final = Struct(">iiibiiB")
_PARTITION_V4: Final = Struct(">iqi")
_PARTITION_V5: Final = Struct(">iqqi")
_PARTITION_V9: Final = Struct(">iiqqi")
# Ends with the number of tagged fields.
_PARTITION_V12: Final = Struct(">iiqiqiB")
_TOPIC_ID: Final = Struct("16s")
_REPLICA_STATE: Final = Struct(">iq")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")

_MINIMUM_TOPIC_BYTES: Final = 6
_MINIMUM_FLEXIBLE_TOPIC_BYTES: Final = 3

# No forgotten topics, no rack.
_EMPTY_TAIL_V11: Final = memoryview(b"\x00\x00\x00\x00\x00\x00")
# No forgotten topics, no rack, no tagged fields.
_EMPTY_TAIL_V12: Final = memoryview(b"\x01\x01\x00")

# Creates a named tuple without calling its class, which would double the cost.
_new: Final = tuple.__new__


def decode_fetch_request(version: int, view: memoryview, offset: int = 0) -> FetchRequest:
    """Decodes the request of a version from 4 to 18 whose body starts at `offset`. Raises `MalformedMessage`."""
    try:
        if version >= _FLEXIBLE_FROM:
            return _decode_flexible(version, view, offset)
        return _decode_fixed(version, view, offset)
    except (error, IndexError):
        raise MalformedMessage("a Fetch request ends within a field") from None


def _decode_fixed(version: int, view: memoryview, position: int) -> FetchRequest:
    if version >= _SESSIONS_FROM:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, count = (
            _HEAD_V7.unpack_from(view, position)
        )
        position += _HEAD_V7.size
    else:
        session_id, session_epoch = 0, -1
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, count = _HEAD_V4.unpack_from(view, position)
        position += _HEAD_V4.size
    topics: list[FetchTopic] = []
    if count:
        check_count(count, view, position, _MINIMUM_TOPIC_BYTES)
        for _ in range(count):
            position = _decode_fixed_topic(version, view, position, topics)
    forgotten: list[ForgottenTopic] = []
    rack_id = ""
    if version >= _SESSIONS_FROM and (version < _RACK_FROM or view[position:] != _EMPTY_TAIL_V11):
        forgotten, position = _decode_fixed_forgotten(view, position)
        if version >= _RACK_FROM:
            rack_id, position = read_string(view, position)
    fields = (
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
        None,
        -1,
    )
    return _new(FetchRequest, fields)


def _decode_fixed_topic(version: int, view: memoryview, position: int, topics: list[FetchTopic]) -> int:
    """Adds the topic at `position` to the topics, and returns the position after it."""
    name, position = read_string(view, position)
    (count,) = _INT32.unpack_from(view, position)
    position += 4
    partitions = []
    if version >= _LEADER_EPOCH_FROM:
        check_count(count, view, position, _PARTITION_V9.size)
        for _ in range(count):
            index, leader_epoch, at, start, most = _PARTITION_V9.unpack_from(view, position)
            position += _PARTITION_V9.size
            fields = (index, leader_epoch, at, -1, start, most, ZERO_TOPIC_ID, NO_HIGH_WATERMARK)
            partitions.append(_new(FetchPartition, fields))
    elif version >= 5:
        check_count(count, view, position, _PARTITION_V5.size)
        for _ in range(count):
            index, at, start, most = _PARTITION_V5.unpack_from(view, position)
            position += _PARTITION_V5.size
            partitions.append(FetchPartition(index, -1, at, -1, start, most))
    else:
        check_count(count, view, position, _PARTITION_V4.size)
        for _ in range(count):
            index, at, most = _PARTITION_V4.unpack_from(view, position)
            position += _PARTITION_V4.size
            partitions.append(FetchPartition(index, -1, at, -1, -1, most))
    topics.append(_new(FetchTopic, (name, None, partitions)))
    return position


def _decode_fixed_forgotten(view: memoryview, position: int) -> tuple[list[ForgottenTopic], int]:
    (count,) = _INT32.unpack_from(view, position)
    position += 4
    check_count(count, view, position, _MINIMUM_TOPIC_BYTES)
    forgotten = []
    for _ in range(count):
        name, position = read_string(view, position)
        (indexes_count,) = _INT32.unpack_from(view, position)
        indexes, position = _decode_indexes(indexes_count, view, position + 4)
        forgotten.append(ForgottenTopic(name, None, indexes))
    return forgotten, position


def _decode_indexes(count: int, view: memoryview, position: int) -> tuple[list[int], int]:
    check_count(count, view, position, 4)
    end = position + count * 4
    return [index for (index,) in _INT32.iter_unpack(view[position:end])], end


def _decode_flexible(version: int, view: memoryview, position: int) -> FetchRequest:
    if version >= _REPLICA_STATE_FROM:
        replica_id = -1
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, count = _HEAD_V15.unpack_from(
            view, position
        )
        position += _HEAD_V15.size
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, count = (
            _HEAD_V12.unpack_from(view, position)
        )
        position += _HEAD_V12.size
    has_topic_ids = version >= _TOPIC_IDS_FROM
    topics: list[FetchTopic] = []
    if count != 1:
        if count >= 0x80:
            count, position = read_unsigned_varint(view, position - 1)
        check_count(count - 1, view, position, _MINIMUM_FLEXIBLE_TOPIC_BYTES)
        for _ in range(count - 1):
            position = _decode_flexible_topic(has_topic_ids, view, position, topics)
    forgotten: list[ForgottenTopic] = []
    rack_id, cluster_id, replica_epoch = "", None, -1
    if view[position:] != _EMPTY_TAIL_V12:
        forgotten, position = _decode_flexible_forgotten(has_topic_ids, view, position)
        rack_id, position = read_compact_string(view, position)
        for tag, field in read_tagged_fields(view, position)[0]:
            if tag == 0:
                cluster_id, _ = read_compact_nullable_string(field, 0)
            elif tag == 1 and version >= _REPLICA_STATE_FROM:
                replica_id, replica_epoch = _REPLICA_STATE.unpack_from(field)
                skip_tagged_fields(field, _REPLICA_STATE.size)
    fields = (
        replica_id,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
        cluster_id,
        replica_epoch,
    )
    return _new(FetchRequest, fields)


def _decode_flexible_topic(has_topic_ids: bool, view: memoryview, position: int, topics: list[FetchTopic]) -> int:
    """Adds the topic at `position` to the topics, and returns the position after it."""
    name = topic_id = None
    if has_topic_ids:
        (topic_id,) = _TOPIC_ID.unpack_from(view, position)
        position += 16
    else:
        name, position = read_compact_string(view, position)
    count = view[position]
    position += 1
    if count >= 0x80:
        count, position = read_unsigned_varint(view, position - 1)
    check_count(count - 1, view, position, _PARTITION_V12.size)
    partitions = []
    for _ in range(count - 1):
        index, leader_epoch, at, fetched_epoch, start, most, tagged_fields = _PARTITION_V12.unpack_from(view, position)
        position += _PARTITION_V12.size
        if tagged_fields:
            directory_id, high_watermark, position = _decode_follower_fields(view, position - 1)
        else:
            directory_id, high_watermark = ZERO_TOPIC_ID, NO_HIGH_WATERMARK
        fields = (index, leader_epoch, at, fetched_epoch, start, most, directory_id, high_watermark)
        partitions.append(_new(FetchPartition, fields))
    topics.append(_new(FetchTopic, (name, topic_id, partitions)))
    return skip_tagged_fields(view, position) if view[position] else position + 1


def _decode_follower_fields(view: memoryview, position: int) -> tuple[bytes, int, int]:
    directory_id: bytes = ZERO_TOPIC_ID
    high_watermark = NO_HIGH_WATERMARK
    fields, position = read_tagged_fields(view, position)
    for tag, field in fields:
        if tag == 0:
            (directory_id,) = _TOPIC_ID.unpack_from(field)
        elif tag == 1:
            (high_watermark,) = _INT64.unpack_from(field)
    return directory_id, high_watermark, position


def _decode_flexible_forgotten(
    has_topic_ids: bool, view: memoryview, position: int
) -> tuple[list[ForgottenTopic], int]:
    count, position = read_unsigned_varint(view, position)
    check_count(count - 1, view, position, _MINIMUM_FLEXIBLE_TOPIC_BYTES)
    forgotten = []
    for _ in range(count - 1):
        name = topic_id = None
        if has_topic_ids:
            (topic_id,) = _TOPIC_ID.unpack_from(view, position)
            position += 16
        else:
            name, position = read_compact_string(view, position)
        indexes_count, position = read_unsigned_varint(view, position)
        indexes, position = _decode_indexes(indexes_count - 1, view, position)
        position = skip_tagged_fields(view, position)
        forgotten.append(ForgottenTopic(name, topic_id, indexes))
    return forgotten, position
