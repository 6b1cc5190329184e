"""The removal of offsets and groups: OffsetDelete, DeleteGroups and expiry.

Each removed offset and each removed group gets a tombstone. Work that may be large is done in steps by
`group_deletion.py`, `deleted_topics.py` and `expiry.py`. After Apache Kafka's `OffsetMetadataManager`
(`deleteOffsets`, `deleteAllOffsets`, `cleanupExpiredOffsets`) and `GroupCoordinatorShard`
(`deleteGroups`, `cleanupGroupMetadata`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from klamm.core.coordinator.shard_contract import CoordinatorRecord, Result, Ticket
from klamm.core.group.events import Cause, GroupDeleted
from klamm.core.group.group import Group
from klamm.core.group.group_registry import GroupRegistry
from klamm.core.group.group_store import GroupStore
from klamm.core.group.offsets.committed_offset import CommittedOffset
from klamm.core.group.offsets.offset_records import offset_tombstone
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from klamm.protocol.schema.offset_delete_request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from klamm.protocol.schema.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from klamm.protocol.types import Millis, PartitionIndex

__all__ = [
    "delete_group",
    "delete_groups",
    "delete_offsets",
    "expire_group",
    "expire_offsets",
    "offset_tombstones",
    "why_not_deletable",
]


def delete_offsets(groups: GroupRegistry, request: OffsetDeleteRequest, ticket: Ticket, *, has_written: bool) -> Result:
    """Deletes single offsets, except of topics that members read: those get GROUP_SUBSCRIBED_TO_TOPIC.

    `has_written` is whether the shard has written a record since its load. If not, a partition without an offset gets a
    tombstone, too: a replica may have an offset that an earlier coordinator has appended and that is not committed.

    Raises GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP for a group with members that are no consumers.
    """
    group = groups.find(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if not group.allows_offset_delete:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    result = Result()
    topics = [_delete_topic_offsets(groups.store, group, topic, result, has_written) for topic in request.topics]
    result.reply(ticket, OffsetDeleteResponse(topics=topics))
    return result


def _delete_topic_offsets(
    store: GroupStore, group: Group, topic: OffsetDeleteRequestTopic, result: Result, has_written: bool
) -> OffsetDeleteResponseTopic:
    is_read = group.is_subscribed_to(topic.name)
    partitions = []
    for asked in topic.partitions:
        partition = PartitionIndex(asked.partition_index)
        code = ErrorCode.NONE
        if is_read:
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        elif (
            not has_written
            or store.offset(group.group_id, topic.name, partition) is not None
            or store.has_open_transaction(group.group_id, topic.name, partition)
        ):
            result.records.append(offset_tombstone(group.group_id, topic.name, partition))
        partitions.append(OffsetDeleteResponsePartition(partition_index=partition, error_code=code))
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def delete_groups(groups: GroupRegistry, request: DeleteGroupsRequest, ticket: Ticket, now: Millis) -> Result:
    """Deletes groups with all their offsets; a group with members gets NON_EMPTY_GROUP, an unknown group
    GROUP_ID_NOT_FOUND.
    """
    result = Result()
    results = []
    for group_id in request.groups_names:
        code = why_not_deletable(groups, group_id)
        if code is ErrorCode.NONE:
            delete_group(groups, group_id, result, now)
        results.append(DeletableGroupResult(group_id=group_id, error_code=code))
    result.reply(ticket, DeleteGroupsResponse(results=results))
    return result


def why_not_deletable(groups: GroupRegistry, group_id: str) -> ErrorCode:
    """Returns NONE for a group that may be deleted, else NON_EMPTY_GROUP or GROUP_ID_NOT_FOUND."""
    group = groups.find(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.is_empty else ErrorCode.NON_EMPTY_GROUP


def delete_group(groups: GroupRegistry, group_id: str, result: Result, now: Millis) -> None:
    """Appends the tombstones of an existing group and of all its offsets."""
    group = groups.peek(group_id)
    result.records.extend(offset_tombstones(groups.store, group_id))
    result.records.extend(group.tombstones())
    result.events.append(GroupDeleted(group_id, now, Cause.ADMIN, group.group_type, group.epoch))


def offset_tombstones(store: GroupStore, group_id: str) -> Iterator[CoordinatorRecord]:
    """Yields a tombstone for each partition that the group has an offset for, or an open transaction."""
    for topic, offsets in store.offsets_of(group_id).items():
        for partition in offsets:
            yield offset_tombstone(group_id, topic, partition)
    for topic, partition in store.partitions_in_transactions(group_id):
        if store.offset(group_id, topic, partition) is None:
            yield offset_tombstone(group_id, topic, partition)


def expire_group(groups: GroupRegistry, group_id: str, retention_ms: int, result: Result, now: Millis) -> None:
    """Expires the old offsets of a group, and an empty group that has nothing left.

    The retention of an offset starts when a classic group became empty. In a simple group, in a classic group with
    members, and in a consumer group it starts with the commit. An offset with an expiry time of its own expires then.
    Offsets in open transactions stay, and so do those of topics that members read.
    """
    store = groups.store
    group = groups.peek(group_id)
    is_anything_left = group_id in store.open_transactions
    offsets_by_topic = store.offsets_of(group_id)
    if offsets_by_topic and not group.may_expire:
        return
    for topic, offsets in offsets_by_topic.items():
        if expire_offsets(groups, group, topic, offsets, retention_ms=retention_ms, result=result, now=now):
            is_anything_left = True
    if not is_anything_left and group.is_empty:
        result.records.extend(group.tombstones())
        result.events.append(GroupDeleted(group_id, now, Cause.OFFSETS_EXPIRED, group.group_type, group.epoch))


def expire_offsets(
    groups: GroupRegistry,
    group: Group,
    topic: str,
    partitions: Iterable[PartitionIndex],
    *,
    retention_ms: int,
    result: Result,
    now: Millis,
) -> bool:
    """Expires the group's old offsets for these partitions of a topic; returns whether any offset stays."""
    if group.is_subscribed_to(topic):
        return True
    store, group_id = groups.store, group.group_id
    is_anything_left = False
    for partition in partitions:
        offset = store.offset(group_id, topic, partition)
        if offset is None:
            continue
        if _is_expired(group, offset, retention_ms, now) and not store.has_open_transaction(group_id, topic, partition):
            result.records.append(offset_tombstone(group_id, topic, partition))
        else:
            is_anything_left = True
    return is_anything_left


def _is_expired(group: Group, offset: CommittedOffset, retention_ms: int, now: Millis) -> bool:
    if offset.expire_timestamp_ms is not None:
        return now >= offset.expire_timestamp_ms
    since = group.expires_from_ms
    if since is None:
        since = offset.commit_timestamp_ms
    return now - since >= retention_ms
