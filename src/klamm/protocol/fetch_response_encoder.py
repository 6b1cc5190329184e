"""Encodes a Fetch response as buffers for one gathering write; the caller's records are never copied.

Layout: FetchResponse.json of Apache Kafka 4.3. See `fetch_messages` for the fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, cast

from klamm.protocol.fetch_messages import Buffers, FetchPartitionResponse, FetchTopicResponse, StoredRecords
from klamm.protocol.node_endpoint import NodeEndpoint, encode_node_endpoints
from klamm.protocol.primitives import encode_compact_string, encode_string
from klamm.protocol.types import ZERO_TOPIC_ID
from klamm.protocol.varint import encode_unsigned_varint

__all__ = ["encode_fetch_response"]

_SESSIONS_FROM: Final = 7
_RACK_FROM: Final = 11
_FLEXIBLE_FROM: Final = 12
_TOPIC_IDS_FROM: Final = 13
_NODE_ENDPOINTS_FROM: Final = 16

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_HEAD_V4: Final = Struct(">ii")
_HEAD_V7: Final = Struct(">ihii")
_HEAD_V12: Final = Struct(">ihi")
# `_ANSWER_V12` includes the number of aborted transactions, for partitions that have none.
_ANSWER_V4: Final = Struct(">ihqq")
_ANSWER_V5: Final = Struct(">ihqqq")
_ANSWER_V12: Final = Struct(">ihqqqBi")
_ABORTED_TRANSACTION: Final = Struct(">qq")
_ABORTED_TRANSACTION_V12: Final = Struct(">qqB")
# Tag and size, then the struct with a count of 0 for its own tagged fields.
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
    """Encodes the response's body in a version from 4 to 18, in parts; fields that the version lacks are left out."""
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
        # A pair of -1 is the default, which is not encoded.
        if pair is not None and pair != (-1, -1):
            fields.append(layout.pack(tag, layout.size - 2, *pair, 0))
    return bytes((len(fields),)) + b"".join(fields)


def _add_records(
    records: bytes | memoryview | StoredRecords | Buffers, parts: list[bytes], buffers: Buffers
) -> list[bytes]:
    """Closes the parts before the records, and returns the list for the parts after them."""
    if not records:
        return parts
    buffers.append(b"".join(parts))
    if isinstance(records, list):
        buffers += records
    else:
        buffers.append(cast("bytes", records))  # or StoredRecords, which only the sender of the response opens
    return []
