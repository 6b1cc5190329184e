"""The broker's codec for Produce; handwritten for speed, because Produce is the most frequent request.

3: transactional id, record batches of magic 2. 5: log start offset in the response. 7: zstd allowed. 8: record errors
and error message in the response. 9: flexible. 10: current leader and node endpoints in the response (KIP-951).
12: adds partitions to the transaction (KIP-890). 13: topic ids instead of names (KIP-516).
Layout: ProduceRequest.json and ProduceResponse.json of Apache Kafka 4.3.

Records are not decoded or copied: they are views of the request's bytes. The common case (lengths and counts below 127,
no tagged fields) is read inline, because function calls dominate the cost. The generated codec decodes requests with
very many partitions, in steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import Final, NamedTuple, NoReturn

from klamm.protocol.errors import MalformedMessage
from klamm.protocol.node_endpoint import NodeEndpoint, encode_node_endpoints
from klamm.protocol.primitives import (
    encode_compact_nullable_error_message,
    encode_compact_string,
    encode_nullable_error_message,
    encode_string,
)
from klamm.protocol.types import ZERO_TOPIC_ID, TopicId
from klamm.protocol.varint import encode_unsigned_varint, read_unsigned_varint, skip_tagged_fields

__all__ = [
    "ManyPartitions",
    "ProducePartitionResponse",
    "ProduceRequest",
    "ProduceTopic",
    "ProduceTopicResponse",
    "decode_produce_request",
    "encode_produce_response",
]

_FLEXIBLE_FROM: Final = 9
_CURRENT_LEADER_FROM: Final = 10
_TOPIC_IDS_FROM: Final = 13


_MOST_AT_ONCE: Final = 256
"""Limit for the topics and partitions read at once, which takes a fraction of a millisecond."""
_LARGEST_AT_ONCE: Final = 4 * 1024 * 1024
"""Limit for the bytes of several batches that are appended at once: about three milliseconds."""


class ManyPartitions(Exception):
    """Raised for a request with more topics and partitions, or with larger batches for several partitions, than may be
    appended at once."""


class ProduceTopic(NamedTuple):
    """A topic of a request: name, or from version 13 id; and index and records of each partition."""

    name: str | None
    topic_id: TopicId | None
    partitions: list[tuple[int, memoryview | None]]


class ProduceRequest(NamedTuple):
    """A Produce request; valid values of `acks` are 0, 1 and -1 (all), but other values are not refused here."""

    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[ProduceTopic]


class ProducePartitionResponse(NamedTuple):
    """The response for one partition.

    `record_errors` are pairs of a record's index in its batch and a message; `current_leader` is leader id and epoch.
    """

    index: int  # type: ignore[assignment]  # Kafka's name, and tuple.index has no use here
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    record_errors: Sequence[tuple[int, str | None]] = ()
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None


class ProduceTopicResponse(NamedTuple):
    """The response for one topic, with the name or id of the request."""

    name: str | None
    topic_id: TopicId | None
    partitions: Sequence[ProducePartitionResponse]


# Creates a named tuple without calling its class, which would double the cost.
_new: Final = tuple.__new__

_ACKS_TIMEOUT_COUNT: Final = Struct(">hii")
_INDEX_LENGTH: Final = Struct(">ii")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
# The last byte is the first of a varint, and usually its only one.
_ACKS_TIMEOUT_VARINT: Final = Struct(">hiB")
_INDEX_VARINT: Final = Struct(">iB")

# The fields before the name, and before the records, in a request for one partition.
_SINGLE_HEAD: Final = Struct(">hhiih")
_SINGLE_PARTITION: Final = Struct(">iii")
_SINGLE_FLEXIBLE_HEAD: Final = Struct(">BhiBB")
_SINGLE_FLEXIBLE_PARTITION: Final = Struct(">BiB")
_SINGLE_MINIMUM_BYTES: Final = 20

# The minimum size of an array's element: a count with more elements than fit into the remaining bytes is refused.
_MINIMUM_TOPIC_BYTES: Final = 6
_MINIMUM_PARTITION_BYTES: Final = 8
_MINIMUM_FLEXIBLE_TOPIC_BYTES: Final = 3
_MINIMUM_FLEXIBLE_PARTITION_BYTES: Final = 6


def decode_produce_request(version: int, view: memoryview, offset: int = 0) -> ProduceRequest:
    """Decodes the request of a version from 3 to 13 whose body starts at `offset`.

    Raises `MalformedMessage`, and `ManyPartitions` for a request that the generated codec should read in steps.
    """
    try:
        if version >= _TOPIC_IDS_FROM:
            return _decode_flexible(True, view, offset)
        if version >= _FLEXIBLE_FROM:
            return _decode_single_flexible(view, offset) or _decode_flexible(False, view, offset)
        return _decode_single_fixed(view, offset) or _decode_fixed(view, offset)
    except (error, IndexError):
        raise MalformedMessage("a Produce request ends within a field") from None


def _decode_single_fixed(view: memoryview, position: int) -> ProduceRequest | None:
    """Decodes a request for one partition without a transaction, the only form that librdkafka sends; else None."""
    end = len(view)
    if end - position < _SINGLE_MINIMUM_BYTES:
        return None
    id_length, acks, timeout_ms, topics_count, name_length = _SINGLE_HEAD.unpack_from(view, position)
    name_start = position + 14
    name_end = name_start + name_length
    if id_length != -1 or topics_count != 1 or not name_start < name_end <= end - 12:
        return None
    partitions_count, index, length = _SINGLE_PARTITION.unpack_from(view, name_end)
    records_start = name_end + 12
    records_end = records_start + length
    if partitions_count != 1 or not records_start <= records_end <= end:
        return None
    name = str(view[name_start:name_end], "utf-8", "replace")
    topic = _new(ProduceTopic, (name, None, [(index, view[records_start:records_end])]))
    return _new(ProduceRequest, (None, acks, timeout_ms, [topic]))


def _decode_single_flexible(view: memoryview, position: int) -> ProduceRequest | None:
    """Decodes a request as `_decode_single_fixed`, in the flexible form."""
    end = len(view)
    if end - position < _SINGLE_MINIMUM_BYTES:
        return None
    id_length, acks, timeout_ms, topics_count, name_length = _SINGLE_FLEXIBLE_HEAD.unpack_from(view, position)
    name_start = position + 9
    name_end = name_start + name_length - 1
    if id_length or topics_count != 2 or not 1 < name_length < 0x80 or name_end > end - 6:
        return None
    partitions_count, index, length = _SINGLE_FLEXIBLE_PARTITION.unpack_from(view, name_end)
    records_start = name_end + 6
    if length >= 0x80:
        length, records_start = read_unsigned_varint(view, records_start - 1)
    records_end = records_start + length - 1
    if partitions_count != 2 or not length or records_end > end - 3:
        return None
    if view[records_end] or view[records_end + 1] or view[records_end + 2]:
        return None
    name = str(view[name_start:name_end], "utf-8", "replace")
    topic = _new(ProduceTopic, (name, None, [(index, view[records_start:records_end])]))
    return _new(ProduceRequest, (None, acks, timeout_ms, [topic]))


def _decode_fixed(view: memoryview, position: int) -> ProduceRequest:
    end = len(view)
    (length,) = _INT16.unpack_from(view, position)
    position += 2
    transactional_id = None
    if length >= 0:
        text_end = position + length
        if text_end > end:
            _refuse_length(length)
        transactional_id = str(view[position:text_end], "utf-8", "replace")
        position = text_end
    acks, timeout_ms, topics_count = _ACKS_TIMEOUT_COUNT.unpack_from(view, position)
    position += 10
    if not 0 <= topics_count <= (end - position) // _MINIMUM_TOPIC_BYTES:
        _refuse_count(topics_count, "topics")
    room = _MOST_AT_ONCE - topics_count
    topics = []
    for _ in range(topics_count):
        (length,) = _INT16.unpack_from(view, position)
        position += 2
        text_end = position + length
        if length < 0 or text_end > end:
            _refuse_length(length)
        name = str(view[position:text_end], "utf-8", "replace")
        (partitions_count,) = _INT32.unpack_from(view, text_end)
        position = text_end + 4
        if not 0 <= partitions_count <= (end - position) // _MINIMUM_PARTITION_BYTES:
            _refuse_count(partitions_count, "partitions")
        room -= partitions_count
        if room < 0 or (end > _LARGEST_AT_ONCE and (topics_count > 1 or partitions_count > 1)):
            raise ManyPartitions
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partitions_count):
            index, length = _INDEX_LENGTH.unpack_from(view, position)
            position += 8
            if length >= 0:
                records_end = position + length
                if records_end > end:
                    _refuse_length(length)
                partitions.append((index, view[position:records_end]))
                position = records_end
            else:
                partitions.append((index, None))
        topics.append(_new(ProduceTopic, (name, None, partitions)))
    return _new(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


def _decode_flexible(has_topic_ids: bool, view: memoryview, position: int) -> ProduceRequest:  # noqa: PLR0912, PLR0915
    end = len(view)
    length = view[position]
    position += 1
    if length >= 0x80:
        length, position = read_unsigned_varint(view, position - 1)
    transactional_id = None
    if length:
        text_end = position + length - 1
        if text_end > end:
            _refuse_length(length - 1)
        transactional_id = str(view[position:text_end], "utf-8", "replace")
        position = text_end
    acks, timeout_ms, topics_count = _ACKS_TIMEOUT_VARINT.unpack_from(view, position)
    position += 7
    if topics_count >= 0x80:
        topics_count, position = read_unsigned_varint(view, position - 1)
    if not 0 < topics_count <= (end - position) // _MINIMUM_FLEXIBLE_TOPIC_BYTES + 1:
        _refuse_count(topics_count - 1, "topics")
    room = _MOST_AT_ONCE - topics_count
    topics = []
    for _ in range(topics_count - 1):
        name = topic_id = None
        if has_topic_ids:
            topic_id = TopicId(bytes(view[position : position + 16]))
            position += 16
        else:
            length = view[position]
            position += 1
            if length >= 0x80:
                length, position = read_unsigned_varint(view, position - 1)
            text_end = position + length - 1
            if not length or text_end > end:
                _refuse_length(length - 1)
            name = str(view[position:text_end], "utf-8", "replace")
            position = text_end
        partitions_count = view[position]
        position += 1
        if partitions_count >= 0x80:
            partitions_count, position = read_unsigned_varint(view, position - 1)
        if not 0 < partitions_count <= (end - position) // _MINIMUM_FLEXIBLE_PARTITION_BYTES + 1:
            _refuse_count(partitions_count - 1, "partitions")
        room -= partitions_count
        if room < 0 or (end > _LARGEST_AT_ONCE and (topics_count > 2 or partitions_count > 2)):
            raise ManyPartitions
        partitions: list[tuple[int, memoryview | None]] = []
        for _ in range(partitions_count - 1):
            index, length = _INDEX_VARINT.unpack_from(view, position)
            position += 5
            if length >= 0x80:
                length, position = read_unsigned_varint(view, position - 1)
            if length:
                records_end = position + length - 1
                if records_end > end:
                    _refuse_length(length - 1)
                partitions.append((index, view[position:records_end]))
                position = records_end
            else:
                partitions.append((index, None))
            position = skip_tagged_fields(view, position) if view[position] else position + 1
        position = skip_tagged_fields(view, position) if view[position] else position + 1
        topics.append(_new(ProduceTopic, (name, topic_id, partitions)))
    skip_tagged_fields(view, position)
    return _new(ProduceRequest, (transactional_id, acks, timeout_ms, topics))


def _refuse_length(length: int) -> NoReturn:
    raise MalformedMessage(f"a field of {length} bytes in a Produce request that has fewer left")


def _refuse_count(count: int, of: str) -> NoReturn:
    raise MalformedMessage(f"{count} {of} in a Produce request that has no room for them")


_PARTITION_V3: Final = Struct(">ihqq")
_PARTITION_V5: Final = Struct(">ihqqq")
# Partitions without record errors and error message; in the flexible form, also without tagged fields.
_PARTITION_PLAIN_V8: Final = Struct(">ihqqqih")
_PARTITION_PLAIN_FLEXIBLE: Final = Struct(">ihqqqBBB")
# Number of tagged fields, tag, size; leader id, leader epoch, number of their tagged fields.
_CURRENT_LEADER: Final = Struct(">BBBiiB")
_UNKNOWN_LEADER: Final = (-1, -1)


def encode_produce_response(
    version: int,
    topics: Sequence[ProduceTopicResponse],
    *,
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> bytes:
    """Encodes the body of the response in a version from 3 to 13; fields that the version lacks are left out."""
    if version >= _FLEXIBLE_FROM:
        return _encode_flexible(version, topics, throttle_time_ms, node_endpoints)
    parts = [_INT32.pack(len(topics))]
    for name, _, partitions in topics:
        parts += (encode_string(name or ""), _INT32.pack(len(partitions)))
        for partition in partitions:
            if version < 5:
                parts.append(_PARTITION_V3.pack(*partition[:4]))
            elif version < 8:
                parts.append(_PARTITION_V5.pack(*partition[:5]))
            elif partition.record_errors or partition.error_message is not None:
                parts.append(_encode_refused_partition(partition))
            else:
                parts.append(_PARTITION_PLAIN_V8.pack(*partition[:5], 0, -1))
    parts.append(_INT32.pack(throttle_time_ms))
    return b"".join(parts)


def _encode_refused_partition(partition: ProducePartitionResponse) -> bytes:
    parts = [_PARTITION_V5.pack(*partition[:5]), _INT32.pack(len(partition.record_errors))]
    for batch_index, message in partition.record_errors:
        parts += (_INT32.pack(batch_index), encode_nullable_error_message(message))
    parts.append(encode_nullable_error_message(partition.error_message))
    return b"".join(parts)


def _encode_flexible(
    version: int,
    topics: Sequence[ProduceTopicResponse],
    throttle_time_ms: int,
    node_endpoints: Sequence[NodeEndpoint],
) -> bytes:
    parts = [encode_unsigned_varint(len(topics) + 1)]
    for name, topic_id, partitions in topics:
        if version >= _TOPIC_IDS_FROM:
            parts.append(topic_id or ZERO_TOPIC_ID)
        else:
            parts.append(encode_compact_string(name or ""))
        parts.append(encode_unsigned_varint(len(partitions) + 1))
        for partition in partitions:
            index, error_code, base_offset, append_time, log_start_offset, record_errors, message, leader = partition
            if record_errors or message is not None or leader is not None:
                parts.append(_encode_refused_partition_flexible(version, partition))
            else:
                parts.append(
                    _PARTITION_PLAIN_FLEXIBLE.pack(
                        index, error_code, base_offset, append_time, log_start_offset, 1, 0, 0
                    )
                )
        parts.append(b"\x00")
    parts.append(_INT32.pack(throttle_time_ms))
    parts.append(encode_node_endpoints(node_endpoints if version >= _CURRENT_LEADER_FROM else ()))
    return b"".join(parts)


def _encode_refused_partition_flexible(version: int, partition: ProducePartitionResponse) -> bytes:
    parts = [_PARTITION_V5.pack(*partition[:5]), encode_unsigned_varint(len(partition.record_errors) + 1)]
    for batch_index, message in partition.record_errors:
        parts += (_INT32.pack(batch_index), encode_compact_nullable_error_message(message), b"\x00")
    parts.append(encode_compact_nullable_error_message(partition.error_message))
    leader = partition.current_leader
    if leader is None or leader == _UNKNOWN_LEADER or version < _CURRENT_LEADER_FROM:
        parts.append(b"\x00")
    else:
        parts.append(_CURRENT_LEADER.pack(1, 0, 9, *leader, 0))
    return b"".join(parts)
