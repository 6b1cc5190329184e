"""Decides TxnOffsetCommit requests, and markers of transactions with offsets.

The offsets are pending (unstable) until the marker of their transaction (`group_store.py`). Each offset is written,
even if it equals the committed one, and none lingers: the marker decides which offsets count.

Version 2 added leader epochs, 3 the member and its generation, to fence zombies (KIP-447), 5 transaction version 2.
The group's kind checks the member. After Apache Kafka's `OffsetMetadataManager.commitTransactionalOffset`.
"""

from __future__ import annotations

from functools import partial

from klamm.core.coordinator.shard_contract import (
    CoordinatorRecord,
    EndOfTransaction,
    Result,
    Ticket,
    TransactionalWrite,
)
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.follow_ups import after_append
from klamm.core.group.group_registry import GroupRegistry
from klamm.core.group.offsets.offset_commits import is_longer
from klamm.core.group.offsets.offset_records import offset_commit_record
from klamm.protocol.errors import ErrorCode
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
    config: GroupCoordinatorConfig,
    request: TxnOffsetCommitRequest,
    verification_guard: int,
    *,
    ticket: Ticket,
    now: Millis,
) -> Result:
    """Writes the offsets as part of the transaction, if the member is allowed to commit.

    Raises the errors of the kind's `offset_checks.py`.
    """
    kind = groups.kind_of(request.group_id)
    kind.check_transactional_commit(request)
    result = Result()
    answers = [_commit_topic(result.records, request.group_id, topic, config, now) for topic in request.topics]
    if result.records:
        result.transaction = TransactionalWrite(
            ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch), verification_guard
        )
        # Noted after the append, because a commit that the log refuses does not count.
        after_append(result, partial(kind.note_transactional_commit, request))
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
