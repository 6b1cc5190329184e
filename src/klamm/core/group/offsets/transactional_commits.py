"""Decides TxnOffsetCommit requests, and markers of transactions with offsets.

The offsets are pending (unstable) until the marker of their transaction (`group_store.py`). Each offset is written,
even if it equals the committed one, and none lingers: the marker decides which offsets count.

Version 2 added leader epochs, 3 the member and its generation, to fence zombies (KIP-447), 5 transaction version 2.
After Apache Kafka's `OffsetMetadataManager.commitTransactionalOffset`, `ClassicGroup.validateOffsetCommit` and
`ConsumerGroup.validateOffsetCommit`.
"""

from __future__ import annotations

from functools import partial

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.coordinator.shard_contract import (
    CoordinatorRecord,
    EndOfTransaction,
    Result,
    Ticket,
    TransactionalWrite,
)
from klamm.core.group.classic.classic_group import ClassicGroup
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.classic.member import Member
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.follow_ups import after_append
from klamm.core.group.consumer.offset_checks import check_transactional_commit
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.group_registry import GroupRegistry
from klamm.core.group.offsets.offset_commits import is_longer
from klamm.core.group.offsets.offset_records import offset_commit_record
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from klamm.protocol.schema.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from klamm.protocol.schema.write_txn_markers_request import WritableTxnMarker
from klamm.protocol.schema.write_txn_markers_response import WritableTxnMarkerPartitionResult
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicId

__all__ = ["commit_transactional_offsets", "end_transaction"]


def commit_transactional_offsets(
    groups: GroupRegistry,
    topics: ClusterTopics,
    config: GroupCoordinatorConfig,
    request: TxnOffsetCommitRequest,
    verification_guard: int,
    *,
    ticket: Ticket,
    now: Millis,
) -> Result:
    """Writes the offsets as part of the transaction, if the member is allowed to commit.

    Raises ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID.
    """
    group_id = request.group_id
    member: Member | None = None
    consumer_group = groups.store.consumer_groups.get(group_id)
    group = None if consumer_group is not None else groups.find(group_id)
    if consumer_group is not None:
        _check_consumer_group(consumer_group, request, topics, config)
    elif group is not None:
        member = _check_classic_group(group, request)
    elif request.generation_id >= 0:
        # A commit without a member creates a simple group, which begins with its first offset.
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    result = Result()
    answers = [_commit_topic(result.records, group_id, topic, config, now) for topic in request.topics]
    if result.records:
        result.transaction = TransactionalWrite(
            ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch), verification_guard
        )
        if member is not None:
            # Noted after the append, because a commit that the log refuses does not count.
            after_append(result, partial(_note_commit, member))
    result.reply(ticket, TxnOffsetCommitResponse(topics=answers))
    return result


def end_transaction(partition: PartitionIndex, marker: WritableTxnMarker, ticket: Ticket) -> Result:
    """Writes the marker, even if this partition has no offsets of the transaction; answers when it is committed."""
    result = Result()
    result.transaction = EndOfTransaction(
        ProducerId(marker.producer_id),
        ProducerEpoch(marker.producer_epoch),
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )
    result.reply(ticket, WritableTxnMarkerPartitionResult(partition_index=partition, error_code=ErrorCode.NONE))
    return result


def _commit_topic(
    records: list[CoordinatorRecord],
    group_id: str,
    topic: TxnOffsetCommitRequestTopic,
    config: GroupCoordinatorConfig,
    now: Millis,
) -> TxnOffsetCommitResponseTopic:
    answer = TxnOffsetCommitResponseTopic(name=topic.name)
    for partition in topic.partitions:
        code = ErrorCode.NONE
        metadata = partition.committed_metadata or ""
        if is_longer(metadata, config.offset_metadata_max_bytes):
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        else:
            records.append(
                offset_commit_record(
                    group_id,
                    topic.name,
                    PartitionIndex(partition.partition_index),
                    offset=Offset(partition.committed_offset),
                    leader_epoch=LeaderEpoch(partition.committed_leader_epoch),
                    metadata=metadata,
                    commit_timestamp_ms=now,
                    expire_timestamp_ms=None,
                    topic_id=TopicId(ZERO_UUID),
                )
            )
        answer.partitions.append(
            TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
        )
    return answer


def _check_classic_group(group: ClassicGroup, request: TxnOffsetCommitRequest) -> Member | None:
    """Returns the committing member, or None if the request names no member.

    Older versions don't contain the member, so it is not checked; neither is the state of the group.
    """
    generation = request.generation_id
    if generation < 0 and group.state is GroupState.EMPTY:
        return None
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return None
    member = group.check_member(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    return member


def _note_commit(member: Member) -> None:
    member.has_committed = True


def _check_consumer_group(
    group: ConsumerGroup, request: TxnOffsetCommitRequest, topics: ClusterTopics, config: GroupCoordinatorConfig
) -> None:
    partitions = []
    limit = config.offset_metadata_max_bytes
    for topic in request.topics:
        facts = topics.by_name(topic.name)
        topic_id = TopicId(ZERO_UUID) if facts is None else facts.topic_id
        partitions += [
            (topic.name, topic_id, each.partition_index)
            for each in topic.partitions
            if not is_longer(each.committed_metadata or "", limit)  # Refused individually, with any epoch.
        ]
    check_transactional_commit(
        group,
        request.member_id,
        request.generation_id,
        partitions,
        names_nobody=request.generation_id == -1 and not request.member_id and request.group_instance_id is None,
    )
