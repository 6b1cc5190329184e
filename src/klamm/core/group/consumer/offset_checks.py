"""The checks of offset commits and fetches in a consumer group (I16).

A member that does not know its latest epoch yet may still commit for partitions that it has had since the epoch in its
request, or longer (KIP-1251): for those it is no zombie. After Apache Kafka's `ConsumerGroup.validateOffsetCommit` and
`validateOffsetFetch`.
"""

from __future__ import annotations

from functools import partial

from klamm.core.coordinator.cluster_topics import ClusterTopics
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.member import ConsumerGroupMember
from klamm.core.group.group_kind import PartitionCheck
from klamm.core.group.offsets.offset_commits import is_longer
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["check_commit", "check_fetch", "check_transactional_commit"]

_CONSUMER_PROTOCOL_FROM = 9


def check_commit(group: ConsumerGroup, request: OffsetCommitRequest, api_version: int) -> PartitionCheck | None:
    """Checks that the sender may commit; returns a check that each partition must pass, too, or None.

    The returned check is for partitions without another error. Raises UNKNOWN_MEMBER_ID or UNSUPPORTED_VERSION. For a
    wrong epoch, both checks raise ILLEGAL_GENERATION for a member of the classic protocol, else STALE_MEMBER_EPOCH.
    """
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return None  # An administrator, or a consumer that manages its partitions itself.
    member = _member(group, request.member_id)
    if member.classic is None and api_version < _CONSUMER_PROTOCOL_FROM:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
        )
    if epoch == member.member_epoch:
        return None
    if epoch > member.member_epoch:
        known = "generation id" if member.classic is not None else "member epoch"
        raise _stale(member, f"Received {known} {epoch} is newer than current member epoch {member.member_epoch}.")
    return partial(_check_partition, member, epoch)


def check_transactional_commit(
    group: ConsumerGroup, request: TxnOffsetCommitRequest, topics: ClusterTopics, max_metadata_length: int
) -> None:
    """Checks that the sender may commit in a transaction. In older versions the request names no member.

    Raises UNKNOWN_MEMBER_ID or ILLEGAL_GENERATION, the only name under which producers know a wrong epoch.
    """
    epoch = request.generation_id
    names_nobody = epoch == -1 and not request.member_id and request.group_instance_id is None
    if names_nobody or (epoch < 0 and not group.members):
        return
    member = _member(group, request.member_id)
    if epoch == member.member_epoch:
        return
    if epoch > member.member_epoch:
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
    for topic in request.topics:
        facts = topics.by_name(topic.name)
        topic_id = TopicId(ZERO_UUID) if facts is None else facts.topic_id
        for partition in topic.partitions:
            if is_longer(partition.committed_metadata or "", max_metadata_length):
                continue  # Refused individually, with any epoch.
            try:
                _check_partition(member, epoch, topic.name, topic_id, partition.partition_index)
            except KafkaError as error:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION) from error


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> None:
    """Checks that a fetch that names a member comes from a present member at its current epoch.

    Raises UNKNOWN_MEMBER_ID; for a wrong epoch ILLEGAL_GENERATION for a member of the classic protocol, else
    STALE_MEMBER_EPOCH.
    """
    if member_id is None and member_epoch < 0:
        return
    member = _member(group, member_id or "")
    if member_epoch != member.member_epoch:
        received = "generation id" if member.classic is not None else "member epoch"
        raise _stale(
            member,
            f"The received {received} {member_epoch} does not match the expected member epoch {member.member_epoch}.",
        )


def _check_partition(member: ConsumerGroupMember, epoch: int, topic: str, topic_id: TopicId, partition: int) -> None:
    since = member.assignment_epoch(topic_id, PartitionIndex(partition))
    if since is None:
        raise _stale(member, f"Partition {topic}-{partition} is not assigned or pending revocation for member.")
    if epoch < since:
        received = "generation id" if member.classic is not None else "member epoch"
        raise _stale(
            member,
            f"Received {received} {epoch} is older than assignment epoch {since} for partition {topic}-{partition}.",
        )


def _member(group: ConsumerGroup, member_id: str) -> ConsumerGroupMember:
    member = group.members.get(member_id)
    if member is None:
        text = f"Member {member_id} is not a member of group {group.group_id}."
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, text)
    return member


def _stale(member: ConsumerGroupMember, text: str) -> KafkaError:
    return KafkaError(ErrorCode.ILLEGAL_GENERATION if member.classic else ErrorCode.STALE_MEMBER_EPOCH, text)
