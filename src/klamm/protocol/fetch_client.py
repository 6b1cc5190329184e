"""The client's side of Fetch: encodes requests and decodes responses, whose records stay encoded views of the bytes."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, NamedTuple

from klamm.protocol.errors import MalformedMessage
from klamm.protocol.fetch_messages import (
    NO_HIGH_WATERMARK,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopicResponse,
    ForgottenTopic,
)
from klamm.protocol.node_endpoint import NodeEndpoint, decode_node_endpoints
from klamm.protocol.primitives import (
    check_count,
    encode_compact_string,
    encode_string,
    read_compact_string,
    read_string,
)
from klamm.protocol.types import ZERO_TOPIC_ID, TopicId
from klamm.protocol.varint import encode_unsigned_varint, read_tagged_fields, read_unsigned_varint, skip_tagged_fields

__all__ = ["FetchResponse", "decode_fetch_response", "encode_fetch_request"]

_SESSIONS_FROM: Final = 7
_LEADER_EPOCH_FROM: Final = 9
_RACK_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13
_REPLICA_STATE_FROM: Final = 15
_REPLICA_DIRECTORY_FROM: Final = 17
_HIGH_WATERMARK_FROM: Final = 18

_INT32: Final = Struct(">i")
_WAIT_MIN_MAX_ISOLATION: Final = Struct(">iiib")
_SESSION: Final = Struct(">ii")
_PARTITION_V4: Final = Struct(">iqi")
_PARTITION_V5: Final = Struct(">iqqi")
_PARTITION_V9: Final = Struct(">iiqqi")
_PARTITION_V12: Final = Struct(">iiqiqi")
# Number of tagged fields, tag, size, replica id, replica epoch, number of their tagged fields.
_REPLICA_STATE: Final = Struct(">BBiqB")
_HIGH_WATERMARK: Final = Struct(">BBq")

_HEAD_V4: Final = Struct(">ii")
_HEAD_V7: Final = Struct(">ihii")
_HEAD_V12: Final = Struct(">ihi")
_ANSWER_V4: Final = Struct(">ihqq")
_ANSWER_V5: Final = Struct(">ihqqq")
_ABORTED_TRANSACTION: Final = Struct(">qq")
_EPOCH_OFFSET: Final = Struct(">iq")
_OFFSET_EPOCH: Final = Struct(">qi")
_LEADER: Final = Struct(">ii")

_MINIMUM_TOPIC_BYTES: Final = 6
_MINIMUM_FLEXIBLE_TOPIC_BYTES: Final = 3


class FetchResponse(NamedTuple):
    """A whole Fetch response."""

    throttle_time_ms: int
    error_code: int
    session_id: int
    topics: list[FetchTopicResponse]
    node_endpoints: Sequence[NodeEndpoint]


def encode_fetch_request(version: int, request: FetchRequest) -> bytes:
    """Encodes the body of a request in a version from 4 to 18; fields that the version lacks are left out."""
    is_flexible = version >= _FLEXIBLE_FROM
    parts = []
    if version < _REPLICA_STATE_FROM:
        parts.append(_INT32.pack(request.replica_id))
    parts.append(
        _WAIT_MIN_MAX_ISOLATION.pack(request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level)
    )
    if version >= _SESSIONS_FROM:
        parts.append(_SESSION.pack(request.session_id, request.session_epoch))
    parts.append(_encode_count(is_flexible, len(request.topics)))
    for name, topic_id, partitions in request.topics:
        parts.append(_encode_topic_key(version, name, topic_id))
        parts.append(_encode_count(is_flexible, len(partitions)))
        parts += [_encode_partition(version, partition) for partition in partitions]
        if is_flexible:
            parts.append(b"\x00")
    if version >= _SESSIONS_FROM:
        parts.append(_encode_forgotten(version, request.forgotten))
    if version >= _RACK_FROM:
        parts.append(encode_compact_string(request.rack_id) if is_flexible else encode_string(request.rack_id))
    if is_flexible:
        parts.append(_encode_tagged_fields(version, request))
    return b"".join(parts)


def _encode_count(is_flexible: bool, count: int) -> bytes:
    return encode_unsigned_varint(count + 1) if is_flexible else _INT32.pack(count)


def _encode_topic_key(version: int, name: str | None, topic_id: TopicId | None) -> bytes:
    if version >= _TOPIC_IDS_FROM:
        return topic_id or ZERO_TOPIC_ID
    return encode_compact_string(name or "") if version >= _FLEXIBLE_FROM else encode_string(name or "")


def _encode_partition(version: int, partition: FetchPartition) -> bytes:
    index, leader_epoch, at, fetched_epoch, start, most, directory_id, high_watermark = partition
    if version < 5:
        return _PARTITION_V4.pack(index, at, most)
    if version < _LEADER_EPOCH_FROM:
        return _PARTITION_V5.pack(index, at, start, most)
    if version < _FLEXIBLE_FROM:
        return _PARTITION_V9.pack(index, leader_epoch, at, start, most)
    fields = []
    if version >= _REPLICA_DIRECTORY_FROM and directory_id != ZERO_TOPIC_ID:
        fields.append(b"\x00\x10" + directory_id)
    if version >= _HIGH_WATERMARK_FROM and high_watermark != NO_HIGH_WATERMARK:
        fields.append(_HIGH_WATERMARK.pack(1, 8, high_watermark))
    packed = _PARTITION_V12.pack(index, leader_epoch, at, fetched_epoch, start, most)
    return packed + bytes((len(fields),)) + b"".join(fields)


def _encode_forgotten(version: int, forgotten: Sequence[ForgottenTopic]) -> bytes:
    is_flexible = version >= _FLEXIBLE_FROM
    parts = [_encode_count(is_flexible, len(forgotten))]
    for name, topic_id, indexes in forgotten:
        parts += (_encode_topic_key(version, name, topic_id), _encode_count(is_flexible, len(indexes)))
        parts += map(_INT32.pack, indexes)
        if is_flexible:
            parts.append(b"\x00")
    return b"".join(parts)


def _encode_tagged_fields(version: int, request: FetchRequest) -> bytes:
    fields = []
    if request.cluster_id is not None:
        cluster_id = encode_compact_string(request.cluster_id)
        fields.append(b"\x00" + encode_unsigned_varint(len(cluster_id)) + cluster_id)
    if version >= _REPLICA_STATE_FROM and (request.replica_id, request.replica_epoch) != (-1, -1):
        fields.append(_REPLICA_STATE.pack(1, 13, request.replica_id, request.replica_epoch, 0))
    return bytes((len(fields),)) + b"".join(fields)


def decode_fetch_response(version: int, view: memoryview, offset: int = 0) -> FetchResponse:
    """Decodes the response in a version from 4 to 18 whose body starts at `offset`. Raises `MalformedMessage`."""
    try:
        if version >= _FLEXIBLE_FROM:
            return _decode_flexible(version, view, offset)
        return _decode_fixed(version, view, offset)
    except (error, IndexError):
        raise MalformedMessage("a Fetch response ends within a field") from None


def _decode_fixed(version: int, view: memoryview, position: int) -> FetchResponse:
    error_code = session_id = 0
    if version >= _SESSIONS_FROM:
        throttle_time_ms, error_code, session_id, topics_count = _HEAD_V7.unpack_from(view, position)
        position += _HEAD_V7.size
    else:
        throttle_time_ms, topics_count = _HEAD_V4.unpack_from(view, position)
        position += _HEAD_V4.size
    check_count(topics_count, view, position, _MINIMUM_TOPIC_BYTES)
    topics = []
    for _ in range(topics_count):
        name, position = read_string(view, position)
        (partitions_count,) = _INT32.unpack_from(view, position)
        position += 4
        check_count(partitions_count, view, position, _ANSWER_V4.size)
        partitions = []
        for _ in range(partitions_count):
            partition, position = _decode_fixed_partition(version, view, position)
            partitions.append(partition)
        topics.append(FetchTopicResponse(name, None, partitions))
    return FetchResponse(throttle_time_ms, error_code, session_id, topics, [])


def _decode_fixed_partition(version: int, view: memoryview, position: int) -> tuple[FetchPartitionResponse, int]:
    log_start_offset = preferred_read_replica = -1
    if version >= 5:
        index, error_code, high_watermark, stable_offset, log_start_offset = _ANSWER_V5.unpack_from(view, position)
        position += _ANSWER_V5.size
    else:
        index, error_code, high_watermark, stable_offset = _ANSWER_V4.unpack_from(view, position)
        position += _ANSWER_V4.size
    (count,) = _INT32.unpack_from(view, position)
    position += 4
    aborted = None
    if count >= 0:
        check_count(count, view, position, _ABORTED_TRANSACTION.size)
        end = position + count * _ABORTED_TRANSACTION.size
        aborted = list(_ABORTED_TRANSACTION.iter_unpack(view[position:end]))
        position = end
    if version >= _RACK_FROM:
        (preferred_read_replica,) = _INT32.unpack_from(view, position)
        position += 4
    (length,) = _INT32.unpack_from(view, position)
    records, position = _read_records(length, view, position + 4)
    return (
        FetchPartitionResponse(
            index,
            error_code,
            high_watermark,
            stable_offset,
            log_start_offset,
            aborted,
            preferred_read_replica,
            records,
        ),
        position,
    )


def _read_records(length: int, view: memoryview, position: int) -> tuple[memoryview | None, int]:
    if length < 0:
        return None, position
    end = position + length
    if end > len(view):
        raise MalformedMessage(f"records of {length} bytes in {len(view) - position} bytes")
    return view[position:end], end


def _decode_flexible(version: int, view: memoryview, position: int) -> FetchResponse:
    throttle_time_ms, error_code, session_id = _HEAD_V12.unpack_from(view, position)
    topics_count, position = read_unsigned_varint(view, position + _HEAD_V12.size)
    check_count(topics_count - 1, view, position, _MINIMUM_FLEXIBLE_TOPIC_BYTES)
    topics = []
    for _ in range(topics_count - 1):
        name = topic_id = None
        if version >= _TOPIC_IDS_FROM:
            topic_id = TopicId(bytes(view[position : position + 16]))
            position += 16
        else:
            name, position = read_compact_string(view, position)
        partitions_count, position = read_unsigned_varint(view, position)
        check_count(partitions_count - 1, view, position, _ANSWER_V5.size)
        partitions = []
        for _ in range(partitions_count - 1):
            partition, position = _decode_flexible_partition(view, position)
            partitions.append(partition)
        position = skip_tagged_fields(view, position)
        topics.append(FetchTopicResponse(name, topic_id, partitions))
    return FetchResponse(throttle_time_ms, error_code, session_id, topics, decode_node_endpoints(view, position))


def _decode_flexible_partition(view: memoryview, position: int) -> tuple[FetchPartitionResponse, int]:
    index, error_code, high_watermark, stable_offset, log_start_offset = _ANSWER_V5.unpack_from(view, position)
    count, position = read_unsigned_varint(view, position + _ANSWER_V5.size)
    aborted = None
    if count:
        check_count(count - 1, view, position, _ABORTED_TRANSACTION.size + 1)
        aborted = []
        for _ in range(count - 1):
            aborted.append(_ABORTED_TRANSACTION.unpack_from(view, position))
            position = skip_tagged_fields(view, position + _ABORTED_TRANSACTION.size)
    (preferred_read_replica,) = _INT32.unpack_from(view, position)
    length, position = read_unsigned_varint(view, position + 4)
    records, position = _read_records(length - 1, view, position)
    diverging_epoch = current_leader = snapshot_id = None
    if view[position]:
        tagged_fields, position = read_tagged_fields(view, position)
        for tag, field in tagged_fields:
            if tag == 0:
                diverging_epoch = _EPOCH_OFFSET.unpack_from(field)
            elif tag == 1:
                current_leader = _LEADER.unpack_from(field)
            elif tag == 2:
                snapshot_id = _OFFSET_EPOCH.unpack_from(field)
    else:
        position += 1
    return (
        FetchPartitionResponse(
            index,
            error_code,
            high_watermark,
            stable_offset,
            log_start_offset,
            aborted,
            preferred_read_replica,
            records,
            diverging_epoch,
            current_leader,
            snapshot_id,
        ),
        position,
    )
