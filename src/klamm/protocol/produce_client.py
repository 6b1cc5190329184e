"""The client's side of Produce, for the raw client and for tests of the broker: encodes requests, decodes responses."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, NamedTuple

from klamm.protocol.errors import MalformedMessage
from klamm.protocol.node_endpoint import NodeEndpoint, decode_node_endpoints
from klamm.protocol.primitives import (
    check_count,
    encode_compact_nullable_string,
    encode_compact_string,
    encode_nullable_string,
    encode_string,
    read_compact_nullable_string,
    read_compact_string,
    read_nullable_string,
    read_string,
)
from klamm.protocol.produce import ProducePartitionResponse, ProduceRequest, ProduceTopicResponse
from klamm.protocol.types import ZERO_TOPIC_ID, TopicId
from klamm.protocol.varint import encode_unsigned_varint, read_tagged_fields, read_unsigned_varint, skip_tagged_fields

__all__ = ["ProduceResponse", "decode_produce_response", "encode_produce_request"]

_FLEXIBLE_FROM: Final = 9
_TOPIC_IDS_FROM: Final = 13

_ACKS_TIMEOUT: Final = Struct(">hi")
_INT32: Final = Struct(">i")
_INDEX_LENGTH: Final = Struct(">ii")
_PARTITION_V3: Final = Struct(">ihqq")
_PARTITION_V5: Final = Struct(">ihqqq")
_LEADER: Final = Struct(">ii")

_MINIMUM_TOPIC_BYTES: Final = 6
_MINIMUM_FLEXIBLE_TOPIC_BYTES: Final = 3
_MINIMUM_RECORD_ERROR_BYTES: Final = 6


class ProduceResponse(NamedTuple):
    """A whole Produce response."""

    topics: list[ProduceTopicResponse]
    throttle_time_ms: int
    node_endpoints: Sequence[NodeEndpoint]


def encode_produce_request(version: int, request: ProduceRequest) -> bytes:
    """Encodes the body of a request in a version from 3 to 13."""
    if version >= _FLEXIBLE_FROM:
        return _encode_flexible(version, request)
    parts: list[bytes | memoryview] = [
        encode_nullable_string(request.transactional_id),
        _ACKS_TIMEOUT.pack(request.acks, request.timeout_ms),
        _INT32.pack(len(request.topics)),
    ]
    for name, _, partitions in request.topics:
        parts += (encode_string(name or ""), _INT32.pack(len(partitions)))
        for index, records in partitions:
            if records is None:
                parts.append(_INDEX_LENGTH.pack(index, -1))
            else:
                parts += (_INDEX_LENGTH.pack(index, len(records)), records)
    return b"".join(parts)


def _encode_flexible(version: int, request: ProduceRequest) -> bytes:
    parts: list[bytes | memoryview] = [
        encode_compact_nullable_string(request.transactional_id),
        _ACKS_TIMEOUT.pack(request.acks, request.timeout_ms),
        encode_unsigned_varint(len(request.topics) + 1),
    ]
    for name, topic_id, partitions in request.topics:
        parts.append((topic_id or ZERO_TOPIC_ID) if version >= _TOPIC_IDS_FROM else encode_compact_string(name or ""))
        parts.append(encode_unsigned_varint(len(partitions) + 1))
        for index, records in partitions:
            parts.append(_INT32.pack(index))
            if records is None:
                parts.append(b"\x00\x00")
            else:
                parts += (encode_unsigned_varint(len(records) + 1), records, b"\x00")
        parts.append(b"\x00")
    parts.append(b"\x00")
    return b"".join(parts)


def decode_produce_response(version: int, view: memoryview, offset: int = 0) -> ProduceResponse:
    """Decodes the response in a version from 3 to 13 whose body starts at `offset`. Raises `MalformedMessage`."""
    try:
        if version >= _FLEXIBLE_FROM:
            return _decode_flexible(version, view, offset)
        return _decode_fixed(version, view, offset)
    except (error, IndexError):
        raise MalformedMessage("a Produce response ends within a field") from None


def _decode_fixed(version: int, view: memoryview, position: int) -> ProduceResponse:
    layout = _PARTITION_V5 if version >= 5 else _PARTITION_V3
    (topics_count,) = _INT32.unpack_from(view, position)
    position += 4
    check_count(topics_count, view, position, _MINIMUM_TOPIC_BYTES)
    topics = []
    for _ in range(topics_count):
        name, position = read_string(view, position)
        (partitions_count,) = _INT32.unpack_from(view, position)
        position += 4
        check_count(partitions_count, view, position, layout.size)
        partitions = []
        for _ in range(partitions_count):
            partition = ProducePartitionResponse(*layout.unpack_from(view, position))
            position += layout.size
            if version >= 8:
                partition, position = _decode_refusal(partition, view, position)
            partitions.append(partition)
        topics.append(ProduceTopicResponse(name, None, partitions))
    (throttle_time_ms,) = _INT32.unpack_from(view, position)
    return ProduceResponse(topics, throttle_time_ms, [])


def _decode_refusal(
    partition: ProducePartitionResponse, view: memoryview, position: int
) -> tuple[ProducePartitionResponse, int]:
    (count,) = _INT32.unpack_from(view, position)
    position += 4
    check_count(count, view, position, _MINIMUM_RECORD_ERROR_BYTES)
    record_errors = []
    for _ in range(count):
        (batch_index,) = _INT32.unpack_from(view, position)
        message, position = read_nullable_string(view, position + 4)
        record_errors.append((batch_index, message))
    message, position = read_nullable_string(view, position)
    return partition._replace(record_errors=record_errors, error_message=message), position


def _decode_flexible(version: int, view: memoryview, position: int) -> ProduceResponse:
    topics_count, position = read_unsigned_varint(view, position)
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
        check_count(partitions_count - 1, view, position, _PARTITION_V5.size)
        partitions = []
        for _ in range(partitions_count - 1):
            partition, position = _decode_flexible_partition(view, position)
            partitions.append(partition)
        position = skip_tagged_fields(view, position)
        topics.append(ProduceTopicResponse(name, topic_id, partitions))
    (throttle_time_ms,) = _INT32.unpack_from(view, position)
    return ProduceResponse(topics, throttle_time_ms, decode_node_endpoints(view, position + 4))


def _decode_flexible_partition(view: memoryview, position: int) -> tuple[ProducePartitionResponse, int]:
    index, error_code, base_offset, append_time, log_start_offset = _PARTITION_V5.unpack_from(view, position)
    count, position = read_unsigned_varint(view, position + _PARTITION_V5.size)
    check_count(count - 1, view, position, _MINIMUM_RECORD_ERROR_BYTES)
    record_errors = []
    for _ in range(count - 1):
        (batch_index,) = _INT32.unpack_from(view, position)
        message, position = read_compact_nullable_string(view, position + 4)
        position = skip_tagged_fields(view, position)
        record_errors.append((batch_index, message))
    message, position = read_compact_nullable_string(view, position)
    tagged_fields, position = read_tagged_fields(view, position)
    current_leader = None
    for tag, field in tagged_fields:
        if tag == 0:
            current_leader = _LEADER.unpack_from(field)
    return (
        ProducePartitionResponse(
            index, error_code, base_offset, append_time, log_start_offset, record_errors, message, current_leader
        ),
        position,
    )
