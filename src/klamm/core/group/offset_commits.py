"""What follows from an OffsetCommit request.

Versions 2 to 4 may name a retention time, version 6 brought leader epochs, 7 static members, 9 consumer groups
(KIP-848), 10 topic ids. After Apache Kafka's `OffsetMetadataManager.commitOffset` and
`ClassicGroup.validateOffsetCommit`.
"""

from __future__ import annotations

from klamm.core.coordinator.contract import ClientContext, Result, Ticket
from klamm.core.group.classic_group import ClassicGroup
from klamm.core.group.config import GroupConfig
from klamm.core.group.member import Member
from klamm.core.group.records import offset_commit_record
from klamm.core.group.registry import GroupRegistry
from klamm.core.group.states import GroupState
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId

__all__ = ["commit_offsets"]

_GROUP_ID_NOT_FOUND_FROM = 9
_BROKER_RETENTION = -1


def commit_offsets(
    groups: GroupRegistry,
    config: GroupConfig,
    request: OffsetCommitRequest,
    context: ClientContext,
    *,
    ticket: Ticket,
    now: Millis,
) -> Result:
    """Write the offsets down, if the one who commits may. Each topic has its name, and its id where that is known.

    Raises GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID or REBALANCE_IN_PROGRESS.
    """
    result = Result()
    group_id = request.group_id
    group = groups.find(group_id)
    if group is None:
        # Whoever commits without being a member makes a simple group, which begins with its first offset.
        if request.generation_id_or_member_epoch >= 0:
            is_recent = context.api_version >= _GROUP_ID_NOT_FOUND_FROM
            raise KafkaError(ErrorCode.group_id_not_found if is_recent else ErrorCode.illegal_generation)
    else:
        member = _check(group, request)
        if member is not None:
            # A member that commits is alive.
            result.timers.append((member.session_timer, member.session_timeout_ms))
    retention_ms = request.retention_time_ms
    expire_timestamp_ms = None if retention_ms == _BROKER_RETENTION else Millis(now + retention_ms)
    max_length = config.offset_metadata_max_bytes
    topics = []
    for topic in request.topics:
        partitions = []
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            code = ErrorCode.none
            if _is_longer(metadata, max_length):
                code = ErrorCode.offset_metadata_too_large
            else:
                result.records.append(
                    offset_commit_record(
                        group_id,
                        topic.name,
                        PartitionIndex(partition.partition_index),
                        offset=Offset(partition.committed_offset),
                        leader_epoch=LeaderEpoch(partition.committed_leader_epoch),
                        metadata=metadata,
                        commit_timestamp_ms=now,
                        expire_timestamp_ms=expire_timestamp_ms,
                        topic_id=TopicId(topic.topic_id),
                    )
                )
            partitions.append(OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code))
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    result.replies.append((ticket, OffsetCommitResponse(topics=topics)))
    return result


def _check(group: ClassicGroup, request: OffsetCommitRequest) -> Member | None:
    """The member that commits, or None if it is somebody outside of an empty group."""
    generation = request.generation_id_or_member_epoch
    if generation < 0 and group.state is GroupState.EMPTY:
        return None
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        raise KafkaError(ErrorCode.unknown_member_id)
    member = group.check_member(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise KafkaError(ErrorCode.illegal_generation)
    if group.state is GroupState.COMPLETING_REBALANCE:
        # The member knows the generation, so it has joined; it has nothing to commit before it has its assignment.
        raise KafkaError(ErrorCode.rebalance_in_progress)
    return member


def _is_longer(text: str, max_length: int) -> bool:
    """Whether the text has more UTF-16 units than that: Java's idea of length."""
    if len(text) > max_length:
        return True
    return not text.isascii() and len(text.encode("utf-16-le", "surrogatepass")) // 2 > max_length
