"""The requests that commit the offsets of a consumer group in a transaction.

Source of their meanings: the handlers in `TransactionManager` of Apache Kafka 4.3.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.client.cluster_view import error_code
from klamm.client.coordinator import GROUP, TRANSACTION
from klamm.client.producer.batch import ProducerIdentity
from klamm.client.producer.outcome import Operation
from klamm.client.producer.transaction_requests import (
    ABORTABLE,
    CONCURRENT_TRANSACTIONS_PAUSE_MS,
    MOVED,
    TransactionRequest,
)
from klamm.protocol.codec import encode
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message, UnsupportedField
from klamm.protocol.schema.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from klamm.protocol.schema.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from klamm.protocol.schema.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.schema.txn_offset_commit_response import TxnOffsetCommitResponse
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicPartition

if TYPE_CHECKING:
    from klamm.client.producer.transactions import TransactionManager

__all__ = ["AddOffsets", "GroupMember", "OffsetToCommit", "TransactionalOffsetCommit"]

_HIGHEST_V1_TXN_OFFSET_COMMIT: Final = 4
# In Java's producer the last four errors are fatal. klamm aborts the transaction instead, which is safe after all of
# them.
_ABORTABLE_FOR_OFFSETS: Final = ABORTABLE | {
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.OFFSET_METADATA_TOO_LARGE,
    ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
}


class OffsetToCommit(NamedTuple):
    """An offset for a partition: the next one to be consumed."""

    offset: Offset
    leader_epoch: LeaderEpoch = LeaderEpoch(-1)
    metadata: str = ""


class GroupMember(NamedTuple):
    """The member for which offsets are committed. The coordinator refuses the commit if the member is no longer in the
    group."""

    member_id: str
    generation: int
    group_instance_id: str | None = None


class AddOffsets(TransactionRequest):
    """Adds a group's offsets to the transaction, in the first transaction protocol; then commits them."""

    starts_transaction = True
    message = AddOffsetsToTxnRequest
    answer = AddOffsetsToTxnResponse

    def __init__(self, transactional_id: str, identity: ProducerIdentity, commit: TransactionalOffsetCommit) -> None:
        super().__init__((TRANSACTION, transactional_id), commit.operation)
        self._transactional_id = transactional_id
        self._identity = identity
        self._commit = commit

    def build(self, version: int) -> Message:
        """Returns the request."""
        return AddOffsetsToTxnRequest(
            transactional_id=self._transactional_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            group_id=self._commit.group_id,
        )

    def answered(self, manager: TransactionManager, answer: Message, now: Millis) -> None:
        """Continues with the commit of the offsets."""
        assert isinstance(answer, AddOffsetsToTxnResponse)
        code = error_code(answer.error_code)
        if code is ErrorCode.NONE:
            manager.is_started = True
            if manager.is_ending_badly:
                self.end(manager.unavailable())
            else:
                manager.requests.add(self._commit)
        else:
            self.refused(manager, code, f"add group {self._commit.group_id!r} to the transaction", now)


class TransactionalOffsetCommit(TransactionRequest):
    """Commits a group's offsets in the transaction (TxnOffsetCommit). Raises `TypeError` for offsets that can't be
    encoded."""

    message = TxnOffsetCommitRequest
    answer = TxnOffsetCommitResponse

    def __init__(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        offsets: Mapping[TopicPartition, OffsetToCommit],
        group_id: str,
        *,
        member: GroupMember | None,
        operation: Operation,
        uses_v2: bool,
    ) -> None:
        super().__init__((GROUP, group_id), operation)
        self.group_id = group_id
        self.highest_version = None if uses_v2 else _HIGHEST_V1_TXN_OFFSET_COMMIT
        self._transactional_id = transactional_id
        self._identity = identity
        self._offsets = dict(offsets)
        self._member = member
        self._require_encodable()

    def build(self, version: int) -> Message:
        """Returns the request for the offsets that are not committed yet."""
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for (topic, partition), wanted in sorted(self._offsets.items()):
            topics.setdefault(topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=wanted.offset,
                    committed_leader_epoch=wanted.leader_epoch,
                    committed_metadata=wanted.metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=self._transactional_id,
            group_id=self.group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        if self._member is not None:
            request.generation_id = self._member.generation
            request.member_id = self._member.member_id
            request.group_instance_id = self._member.group_instance_id
        return request

    def _require_encodable(self) -> None:
        # Otherwise the error would come in a later call, and stop the transaction.
        version = TxnOffsetCommitRequest.VERSIONS[1]
        try:
            encode(self.build(version), version)
        except (UnsupportedField, TypeError, ValueError, AttributeError, struct.error) as error:
            raise TypeError(
                f"offsets are an OffsetToCommit for each TopicPartition, for a group with a name: {error}"
            ) from error

    def answered(self, manager: TransactionManager, answer: Message, now: Millis) -> None:
        """Ends the operation when all offsets are committed; repeats the request for offsets with a retriable error."""
        assert isinstance(answer, TxnOffsetCommitResponse)
        codes: dict[ErrorCode, TopicPartition] = {}
        for topic in answer.topics:
            for each in topic.partitions:
                topic_partition = TopicPartition(topic.name, PartitionIndex(each.partition_index))
                code = error_code(each.error_code)
                if code is ErrorCode.NONE:
                    self._offsets.pop(topic_partition, None)
                else:
                    codes[code] = topic_partition
        final = [code for code in codes if not code.retriable]
        if final:
            doing = f"commit the offset of {codes[final[0]]} for group {self.group_id!r}"
            if final[0] in _ABORTABLE_FOR_OFFSETS:
                manager.abortable(final[0], doing, self)
            else:
                self.refused(manager, final[0], doing, now)
        elif not self._offsets:
            self.end()
        else:
            if codes.keys() & (MOVED | {ErrorCode.REQUEST_TIMED_OUT}):
                manager.requests.look_up(self.coordinator)
            is_concurrent = codes.keys() == {ErrorCode.CONCURRENT_TRANSACTIONS}
            reason = ", ".join(f"{code.name} for {topic_partition}" for code, topic_partition in codes.items())
            self.repeat(manager, reason, now, CONCURRENT_TRANSACTIONS_PAUSE_MS if is_concurrent else None)
