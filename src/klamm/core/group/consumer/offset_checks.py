"""Whose commits and fetches of offsets a consumer group accepts (I16).

A member that has not heard of its latest epoch may still commit for partitions that it has had since the epoch it names
(KIP-1251): it is no zombie as to those. After Apache Kafka's `ConsumerGroup.validateOffsetCommit` and
`validateOffsetFetch`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeAlias

from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.member import ConsumerGroupMember
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest
from klamm.protocol.types import PartitionIndex, TopicId

__all__ = ["PartitionCheck", "check_commit", "check_fetch", "check_transactional_commit"]

PartitionCheck: TypeAlias = Callable[[str, TopicId, int], None]
"""Refuses a commit as a whole if the partition, of a topic by name and where that is known by id, may not be in it."""

_CONSUMER_PROTOCOL_FROM = 9


def check_commit(group: ConsumerGroup, request: OffsetCommitRequest, api_version: int) -> PartitionCheck | None:
    """Refuse the commit of somebody who may not; returns what its partitions have to pass besides, if anything.

    Only those partitions have to that nothing else is wrong with. Both raise UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION,
    or, for a member of the classic protocol ILLEGAL_GENERATION, for another STALE_MEMBER_EPOCH.
    """
    epoch = request.generation_id_or_member_epoch
    if epoch < 0 and not group.members:
        return None  # An administrator, or a consumer that manages its partitions itself.
    member = _member(group, request.member_id)
    if member.classic is None and api_version < _CONSUMER_PROTOCOL_FROM:
        raise KafkaError(
            ErrorCode.unsupported_version,
            "OffsetCommit version 9 or above must be used by members using the consumer group protocol",
        )
    if epoch == member.member_epoch:
        return None
    if epoch > member.member_epoch:
        known = "generation id" if member.classic is not None else "member epoch"
        raise _stale(member, f"Received {known} {epoch} is newer than current member epoch {member.member_epoch}.")
    return partial(_check_partition, member, epoch)


def check_transactional_commit(
    group: ConsumerGroup,
    member_id: str,
    epoch: int,
    partitions: Iterable[tuple[str, TopicId, int]],
    *,
    names_nobody: bool,
) -> None:
    """Refuse the commit, in a transaction, of somebody who may not; `names_nobody` is that of a request that says
    nothing of its member, as older versions do.

    Raises UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION: what producers know of generations, they know by that name.
    """
    if names_nobody or (epoch < 0 and not group.members):
        return
    member = _member(group, member_id)
    if epoch == member.member_epoch:
        return
    if epoch > member.member_epoch:
        raise KafkaError(ErrorCode.illegal_generation)
    for topic, topic_id, partition in partitions:
        try:
            _check_partition(member, epoch, topic, topic_id, partition)
        except KafkaError as error:
            raise KafkaError(ErrorCode.illegal_generation) from error


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> None:
    """Refuse a fetch by somebody who says that it is a member and is not, or not any more.

    Raises UNKNOWN_MEMBER_ID, or, for a member of the classic protocol ILLEGAL_GENERATION, for another
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
        raise KafkaError(ErrorCode.unknown_member_id, text)
    return member


def _stale(member: ConsumerGroupMember, text: str) -> KafkaError:
    return KafkaError(ErrorCode.illegal_generation if member.classic else ErrorCode.stale_member_epoch, text)
