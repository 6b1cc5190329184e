"""What follows from a TxnOffsetCommit request, and from the end of a transaction that had offsets.

The offsets are pending (unstable) until the marker of their transaction (`group_store.py`). Each of them is written,
whatever is committed already, and none lingers: the marker decides which of them count.

Version 2 brought leader epochs, 3 the member and its generation, so that a zombie is refused (KIP-447), 5 transaction
version 2. After Apache Kafka's `OffsetMetadataManager.commitTransactionalOffset`, `ClassicGroup.validateOffsetCommit`
and `ConsumerGroup.validateOffsetCommit`.
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
    """Write the offsets down for the transaction, if the one who commits may.

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
        # Whoever commits without being a member makes a simple group, which begins with its first offset.
        raise KafkaError(ErrorCode.illegal_generation)
    result = Result()
    answers = [_commit_topic(result.records, group_id, topic, config, now) for topic in request.topics]
    if result.records:
        result.transaction = TransactionalWrite(
            ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch), verification_guard
        )
        if member is not None:
            # A producer that the log refuses has got nothing done.
            after_append(result, partial(_note_commit, member))
    result.reply(ticket, TxnOffsetCommitResponse(topics=answers))
    return result


def end_transaction(partition: PartitionIndex, marker: WritableTxnMarker, ticket: Ticket) -> Result:
    """Write the marker, be there offsets of the transaction here or not; answered when it is committed."""
    result = Result()
    result.transaction = EndOfTransaction(
        ProducerId(marker.producer_id),
        ProducerEpoch(marker.producer_epoch),
        marker.coordinator_epoch,
        marker.transaction_result,
        marker.transaction_version,
    )
    result.reply(ticket, WritableTxnMarkerPartitionResult(partition_index=partition, error_code=ErrorCode.none))
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
        code = ErrorCode.none
        metadata = partition.committed_metadata or ""
        if is_longer(metadata, config.offset_metadata_max_bytes):
            code = ErrorCode.offset_metadata_too_large
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
    """The member that commits, if it says so.

    Older versions don't say who commits, so nobody is asked; the state of the group does not matter either.
    """
    generation = request.generation_id
    if generation < 0 and group.state is GroupState.EMPTY:
        return None
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return None
    member = group.check_member(request.member_id, request.group_instance_id)
    if generation != group.generation:
        raise KafkaError(ErrorCode.illegal_generation)
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
            if not is_longer(each.committed_metadata or "", limit)  # Refused by itself, whatever the epoch.
        ]
    check_transactional_commit(
        group,
        request.member_id,
        request.generation_id,
        partitions,
        names_nobody=request.generation_id == -1 and not request.member_id and request.group_instance_id is None,
    )
