"""Fetch, as the broker reads and answers it; written by hand, because consumers and followers live from it.

4: isolation level. 5: log start offset. 7: fetch sessions (KIP-227). 9: current leader epoch (KIP-320). 10: zstd
allowed. 11: rack, preferred read replica (KIP-392). 12: flexible, last fetched epoch, diverging epoch (KIP-595).
13: topic ids in place of names (KIP-516). 15: replica state in place of the replica id (KIP-903). 16: node endpoints in
the answer (KIP-951). 17: replica directory id (KIP-853). 18: the follower's high watermark (KIP-1166).
Layout: FetchRequest.json and FetchResponse.json of Apache Kafka 4.3.

The answer is a list of buffers for one gathering write: records stand in it as the caller gave them, never copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error
from typing import Final

from klamm.protocol.errors import MalformedMessage
from klamm.protocol.fetch_messages import (
    NO_HIGH_WATERMARK,
    Buffers,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
    FetchTopicResponse,
    ForgottenTopic,
)
from klamm.protocol.node_endpoint import NodeEndpoint, encode_node_endpoints
from klamm.protocol.primitives import (
    check_count,
    encode_compact_string,
    encode_string,
    read_compact_nullable_string,
    read_compact_string,
    read_string,
)
from klamm.protocol.types import ZERO_TOPIC_ID, TopicId
from klamm.protocol.varint import encode_unsigned_varint, read_tagged_fields, read_unsigned_varint, skip_tagged_fields

__all__ = [
    "Buffers",
    "FetchPartition",
    "FetchPartitionResponse",
    "FetchRequest",
    "FetchTopic",
    "FetchTopicResponse",
    "ForgottenTopic",
    "NO_HIGH_WATERMARK",
    "decode_fetch_request",
    "encode_fetch_response",
]

_SESSIONS_FROM: Final = 7
_LEADER_EPOCH_FROM: Final = 9
_RACK_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13
_REPLICA_STATE_FROM: Final = 15
_NODE_ENDPOINTS_FROM: Final = 16

_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")
_NO_SESSION: Final = (0, -1)

# Each ends with the number of topics; a varint's first byte is mostly all of it.
_REQUEST_V4: Final = Struct(">iiiibi")
_REQUEST_V7: Final = Struct(">iiiibiii")
_REQUEST_V12: Final = Struct(">iiiibiiB")
_REQUEST_V15: Final = Struct(">iiibiiB")
_PARTITION_V4: Final = Struct(">iqi")
_PARTITION_V5: Final = Struct(">iqqi")
_PARTITION_V9: Final = Struct(">iiqqi")
# With the number of tagged fields.
_PARTITION_V12: Final = Struct(">iiqiqiB")
_REPLICA_STATE: Final = Struct(">iq")

_MINIMUM_TOPIC_BYTES: Final = 6
_MINIMUM_FLEXIBLE_TOPIC_BYTES: Final = 3


def decode_fetch_request(version: int, view: memoryview, offset: int = 0) -> FetchRequest:
    """The request of a version from 4 to 18 whose body starts at `offset`. Raises `MalformedMessage`."""
    try:
        if version >= _FLEXIBLE_FROM:
            return _decode_flexible(version, view, offset)
        return _decode_fixed(version, view, offset)
    except (error, IndexError):
        raise MalformedMessage("a Fetch request ends within a field") from None


def _decode_fixed(version: int, view: memoryview, position: int) -> FetchRequest:
    if version >= _SESSIONS_FROM:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, count = (
            _REQUEST_V7.unpack_from(view, position)
        )
        position += _REQUEST_V7.size
    else:
        session_id, session_epoch = _NO_SESSION
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, count = _REQUEST_V4.unpack_from(view, position)
        position += _REQUEST_V4.size
    check_count(count, view, position, _MINIMUM_TOPIC_BYTES)
    topics = []
    for _ in range(count):
        name, position = read_string(view, position)
        partitions, position = _decode_fixed_partitions(version, view, position)
        topics.append(FetchTopic(name, None, partitions))
    forgotten = []
    if version >= _SESSIONS_FROM:
        (count,) = _INT32.unpack_from(view, position)
        position += 4
        check_count(count, view, position, _MINIMUM_TOPIC_BYTES)
        for _ in range(count):
            name, position = read_string(view, position)
            (indexes_count,) = _INT32.unpack_from(view, position)
            position += 4
            indexes, position = _decode_indexes(indexes_count, view, position)
            forgotten.append(ForgottenTopic(name, None, indexes))
    rack_id = read_string(view, position)[0] if version >= _RACK_FROM else ""
    return FetchRequest(
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
    )


def _decode_fixed_partitions(version: int, view: memoryview, position: int) -> tuple[list[FetchPartition], int]:
    (count,) = _INT32.unpack_from(view, position)
    position += 4
    layout = _PARTITION_V9 if version >= _LEADER_EPOCH_FROM else _PARTITION_V5 if version >= 5 else _PARTITION_V4
    check_count(count, view, position, layout.size)
    end = position + count * layout.size
    rows = layout.iter_unpack(view[position:end])
    if version >= _LEADER_EPOCH_FROM:
        return [FetchPartition(index, epoch, at, -1, start, most) for index, epoch, at, start, most in rows], end
    if version >= 5:
        return [FetchPartition(index, -1, at, -1, start, most) for index, at, start, most in rows], end
    return [FetchPartition(index, -1, at, -1, -1, most) for index, at, most in rows], end


def _decode_indexes(count: int, view: memoryview, position: int) -> tuple[list[int], int]:
    check_count(count, view, position, 4)
    end = position + count * 4
    return [index for (index,) in _INT32.iter_unpack(view[position:end])], end


def _decode_flexible(version: int, view: memoryview, position: int) -> FetchRequest:
    if version >= _REPLICA_STATE_FROM:
        replica_id = -1
        max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, count = _REQUEST_V15.unpack_from(
            view, position
        )
        position += _REQUEST_V15.size
    else:
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation_level, session_id, session_epoch, count = (
            _REQUEST_V12.unpack_from(view, position)
        )
        position += _REQUEST_V12.size
    has_topic_ids = version >= _TOPIC_IDS_FROM
    if count >= 0x80:
        count, position = read_unsigned_varint(view, position - 1)
    check_count(count - 1, view, position, _MINIMUM_FLEXIBLE_TOPIC_BYTES)
    topics = []
    for _ in range(count - 1):
        name, topic_id, position = _decode_topic_key(has_topic_ids, view, position)
        partitions, position = _decode_flexible_partitions(view, position)
        position = skip_tagged_fields(view, position) if view[position] else position + 1
        topics.append(FetchTopic(name, topic_id, partitions))
    count, position = read_unsigned_varint(view, position)
    check_count(count - 1, view, position, _MINIMUM_FLEXIBLE_TOPIC_BYTES)
    forgotten = []
    for _ in range(count - 1):
        name, topic_id, position = _decode_topic_key(has_topic_ids, view, position)
        indexes_count, position = read_unsigned_varint(view, position)
        indexes, position = _decode_indexes(indexes_count - 1, view, position)
        position = skip_tagged_fields(view, position)
        forgotten.append(ForgottenTopic(name, topic_id, indexes))
    rack_id, position = read_compact_string(view, position)
    cluster_id, replica_epoch = None, -1
    if view[position]:
        for tag, field in read_tagged_fields(view, position)[0]:
            if tag == 0:
                cluster_id = read_compact_nullable_string(field, 0)[0]
            elif tag == 1 and version >= _REPLICA_STATE_FROM:
                replica_id, replica_epoch = _REPLICA_STATE.unpack_from(field)
                skip_tagged_fields(field, _REPLICA_STATE.size)
    return FetchRequest(
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


def _decode_topic_key(has_topic_ids: bool, view: memoryview, position: int) -> tuple[str | None, TopicId | None, int]:
    if has_topic_ids:
        # Where fewer bytes are left, what is read next ends beyond them.
        return None, TopicId(bytes(view[position : position + 16])), position + 16
    name, position = read_compact_string(view, position)
    return name, None, position


def _decode_flexible_partitions(view: memoryview, position: int) -> tuple[list[FetchPartition], int]:
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
            partitions.append(
                FetchPartition(index, leader_epoch, at, fetched_epoch, start, most, directory_id, high_watermark)
            )
        else:
            partitions.append(FetchPartition(index, leader_epoch, at, fetched_epoch, start, most))
    return partitions, position


def _decode_follower_fields(view: memoryview, position: int) -> tuple[bytes, int, int]:
    directory_id: bytes = ZERO_TOPIC_ID
    high_watermark = NO_HIGH_WATERMARK
    fields, position = read_tagged_fields(view, position)
    for tag, field in fields:
        if tag == 0:
            if len(field) < 16:
                raise MalformedMessage(f"a replica directory id of {len(field)} bytes")
            directory_id = bytes(field[:16])
        elif tag == 1:
            (high_watermark,) = _INT64.unpack_from(field)
    return directory_id, high_watermark, position


_HEAD_V4: Final = Struct(">ii")
_HEAD_V7: Final = Struct(">ihii")
_HEAD_V12: Final = Struct(">ihi")
# The layouts with the number of aborted transactions are for the answers that have none.
_ANSWER_V4: Final = Struct(">ihqq")
_ANSWER_V5: Final = Struct(">ihqqq")
_ANSWER_V12: Final = Struct(">ihqqqBi")
_ABORTED_TRANSACTION: Final = Struct(">qq")
_ABORTED_TRANSACTION_V12: Final = Struct(">qqB")
# Tag and size, then the structure with its own number of tagged fields, none.
_DIVERGING_EPOCH: Final = Struct(">BBiqB")
_CURRENT_LEADER: Final = Struct(">BBiiB")
_SNAPSHOT_ID: Final = Struct(">BBqiB")


def encode_fetch_response(
    version: int,
    error_code: int,
    session_id: int,
    topics: Sequence[FetchTopicResponse],
    *,
    throttle_time_ms: int = 0,
    node_endpoints: Sequence[NodeEndpoint] = (),
) -> Buffers:
    """The body of the answer in a version from 4 to 18, in parts; fields that the version lacks are left out."""
    buffers: Buffers = []
    if version >= _FLEXIBLE_FROM:
        parts: list[bytes] = [
            _HEAD_V12.pack(throttle_time_ms, error_code, session_id),
            encode_unsigned_varint(len(topics) + 1),
        ]
        for name, topic_id, partitions in topics:
            if version >= _TOPIC_IDS_FROM:
                parts.append(topic_id or ZERO_TOPIC_ID)
            else:
                parts.append(encode_compact_string(name or ""))
            parts.append(encode_unsigned_varint(len(partitions) + 1))
            for partition in partitions:
                parts = _encode_flexible_partition(partition, parts, buffers)
            parts.append(b"\x00")
        parts.append(encode_node_endpoints(node_endpoints if version >= _NODE_ENDPOINTS_FROM else ()))
    else:
        if version >= _SESSIONS_FROM:
            parts = [_HEAD_V7.pack(throttle_time_ms, error_code, session_id, len(topics))]
        else:
            parts = [_HEAD_V4.pack(throttle_time_ms, len(topics))]
        for name, _, partitions in topics:
            parts += (encode_string(name or ""), _INT32.pack(len(partitions)))
            for partition in partitions:
                parts = _encode_fixed_partition(version, partition, parts, buffers)
    if parts:
        buffers.append(b"".join(parts))
    return buffers


def _encode_fixed_partition(
    version: int, partition: FetchPartitionResponse, parts: list[bytes], buffers: Buffers
) -> list[bytes]:
    parts.append(_ANSWER_V5.pack(*partition[:5]) if version >= 5 else _ANSWER_V4.pack(*partition[:4]))
    aborted = partition.aborted_transactions
    parts.append(_INT32.pack(-1 if aborted is None else len(aborted)))
    if aborted:
        parts += [_ABORTED_TRANSACTION.pack(*transaction) for transaction in aborted]
    if version >= _RACK_FROM:
        parts.append(_INT32.pack(partition.preferred_read_replica))
    records = partition.records
    if records is None:
        parts.append(_INT32.pack(-1))
        return parts
    parts.append(_INT32.pack(sum(map(len, records)) if isinstance(records, list) else len(records)))
    return _add_records(records, parts, buffers)


def _encode_flexible_partition(partition: FetchPartitionResponse, parts: list[bytes], buffers: Buffers) -> list[bytes]:
    (
        index,
        error_code,
        high_watermark,
        last_stable_offset,
        log_start_offset,
        aborted,
        preferred_read_replica,
        records,
        diverging_epoch,
        current_leader,
        snapshot_id,
    ) = partition
    if aborted:
        parts += (_ANSWER_V5.pack(*partition[:5]), encode_unsigned_varint(len(aborted) + 1))
        parts += [_ABORTED_TRANSACTION_V12.pack(*transaction, 0) for transaction in aborted]
        parts.append(_INT32.pack(preferred_read_replica))
    else:
        parts.append(
            _ANSWER_V12.pack(
                index,
                error_code,
                high_watermark,
                last_stable_offset,
                log_start_offset,
                0 if aborted is None else 1,
                preferred_read_replica,
            )
        )
    if records is None:
        parts.append(b"\x00")
    else:
        size = sum(map(len, records)) if isinstance(records, list) else len(records)
        parts.append(encode_unsigned_varint(size + 1))
        parts = _add_records(records, parts, buffers)
    if diverging_epoch is None and current_leader is None and snapshot_id is None:
        parts.append(b"\x00")
    else:
        parts.append(_encode_tagged_fields(diverging_epoch, current_leader, snapshot_id))
    return parts


def _encode_tagged_fields(
    diverging_epoch: tuple[int, int] | None,
    current_leader: tuple[int, int] | None,
    snapshot_id: tuple[int, int] | None,
) -> bytes:
    fields = []
    for tag, layout, pair in (
        (0, _DIVERGING_EPOCH, diverging_epoch),
        (1, _CURRENT_LEADER, current_leader),
        (2, _SNAPSHOT_ID, snapshot_id),
    ):
        # A pair of -1 is the default, which never travels.
        if pair is not None and pair != (-1, -1):
            fields.append(layout.pack(tag, layout.size - 2, *pair, 0))
    return bytes((len(fields),)) + b"".join(fields)


def _add_records(records: bytes | memoryview | Buffers, parts: list[bytes], buffers: Buffers) -> list[bytes]:
    """Closes the parts before the records, and returns the list for the parts after them."""
    if not records:
        return parts
    buffers.append(b"".join(parts))
    if isinstance(records, list):
        buffers += records
    else:
        buffers.append(records)
    return []
