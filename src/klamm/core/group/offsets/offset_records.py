"""Creates and reads the records of committed offsets.

The written versions are Kafka's: OffsetCommitValue 4, or 1 if the client sent an expiry time (only version 1 can
contain it). After Apache Kafka's `GroupCoordinatorRecordHelpers`.
"""

from __future__ import annotations

from typing import Final

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.offsets.committed_offset import CommittedOffset
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.schema.legacy_offset_commit_value import LegacyOffsetCommitValue
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId

__all__ = [
    "committed_offset",
    "offset_commit_record",
    "offset_tombstone",
]

_OFFSET_COMMIT_VERSION: Final = 4
_OFFSET_COMMIT_VERSION_WITH_EXPIRY: Final = 1


def offset_commit_record(
    group_id: str,
    topic: str,
    partition: PartitionIndex,
    *,
    offset: Offset,
    leader_epoch: LeaderEpoch,
    metadata: str,
    commit_timestamp_ms: Millis,
    expire_timestamp_ms: Millis | None,
    topic_id: TopicId,
) -> CoordinatorRecord:
    """Returns the record of a committed offset.

    A commit with an expiry time loses leader epoch and topic id here and not only when it is encoded, because the state
    in memory must equal the state in the log.
    """
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    if expire_timestamp_ms is None:
        value = OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=commit_timestamp_ms,
            topic_id=topic_id,
        )
        return CoordinatorRecord(key, value, _OFFSET_COMMIT_VERSION)
    value = OffsetCommitValue(
        offset=offset,
        metadata=metadata,
        commit_timestamp=commit_timestamp_ms,
        expire_timestamp=expire_timestamp_ms,
    )
    return CoordinatorRecord(key, value, _OFFSET_COMMIT_VERSION_WITH_EXPIRY)


def committed_offset(record_offset: Offset, value: OffsetCommitValue | LegacyOffsetCommitValue) -> CommittedOffset:
    """Returns the committed offset in a record's value.

    The legacy value is that of record type 0, from old versions of Kafka.
    """
    if isinstance(value, LegacyOffsetCommitValue):
        return CommittedOffset(
            Offset(value.offset),
            LeaderEpoch(-1),
            value.metadata,
            Millis(value.commit_timestamp),
            None,
            TopicId(ZERO_UUID),
            record_offset,
        )
    expire_timestamp = value.expire_timestamp
    return CommittedOffset(
        Offset(value.offset),
        LeaderEpoch(value.leader_epoch),
        value.metadata,
        Millis(value.commit_timestamp),
        None if expire_timestamp == -1 else Millis(expire_timestamp),
        TopicId(value.topic_id),
        record_offset,
    )


def offset_tombstone(group_id: str, topic: str, partition: PartitionIndex) -> CoordinatorRecord:
    """Returns the record that removes a group's offset for the partition."""
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition), None, _OFFSET_COMMIT_VERSION
    )
