"""How offsets and groups go: OffsetDelete, DeleteGroups, topics that are deleted, and time.

Whatever goes leaves a tombstone, for each offset and for the group. After Apache Kafka's `OffsetMetadataManager`
(`deleteOffsets`, `deleteAllOffsets`, `cleanupExpiredOffsets`, `onTopicsDeleted`) and `GroupCoordinatorShard`
(`deleteGroups`, `cleanupGroupMetadata`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from klamm.core.coordinator.contract import CoordinatorRecord, DeletedTopic, Result, Ticket
from klamm.core.group.committed_offset import CommittedOffset
from klamm.core.group.events import Cause, GroupDeleted
from klamm.core.group.group import Group
from klamm.core.group.records import offset_tombstone
from klamm.core.group.registry import GroupRegistry
from klamm.core.group.store import GroupStore
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.delete_groups_response import DeletableGroupResult, DeleteGroupsResponse
from klamm.protocol.schema.offset_delete_request import OffsetDeleteRequest, OffsetDeleteRequestTopic
from klamm.protocol.schema.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from klamm.protocol.types import Millis, PartitionIndex

__all__ = ["delete_groups", "delete_offsets", "delete_topics", "expire_group"]


def delete_offsets(groups: GroupRegistry, request: OffsetDeleteRequest, ticket: Ticket) -> Result:
    """Forget single offsets, except of topics that members read: those get GROUP_SUBSCRIBED_TO_TOPIC.

    Raises GROUP_ID_NOT_FOUND, or NON_EMPTY_GROUP for a group with members whose subscriptions are not known.
    """
    group = groups.find_any(request.group_id)
    if group is None:
        raise KafkaError(ErrorCode.group_id_not_found)
    if not group.allows_offset_delete:
        raise KafkaError(ErrorCode.non_empty_group)
    result = Result()
    topics = [_delete_topic_offsets(groups.store, group, topic, result) for topic in request.topics]
    result.reply(ticket, OffsetDeleteResponse(topics=topics))
    return result


def _delete_topic_offsets(
    store: GroupStore, group: Group, topic: OffsetDeleteRequestTopic, result: Result
) -> OffsetDeleteResponseTopic:
    is_read = group.is_subscribed_to(topic.name)
    partitions = []
    for asked in topic.partitions:
        partition = PartitionIndex(asked.partition_index)
        code = ErrorCode.none
        if is_read:
            code = ErrorCode.group_subscribed_to_topic
        elif store.offset(group.group_id, topic.name, partition) is not None or store.has_open_transaction(
            group.group_id, topic.name, partition
        ):
            result.records.append(offset_tombstone(group.group_id, topic.name, partition))
        partitions.append(OffsetDeleteResponsePartition(partition_index=partition, error_code=code))
    return OffsetDeleteResponseTopic(name=topic.name, partitions=partitions)


def delete_groups(groups: GroupRegistry, request: DeleteGroupsRequest, ticket: Ticket, now: Millis) -> Result:
    """Forget groups with all they committed; a group with members gets NON_EMPTY_GROUP, one that is unknown
    GROUP_ID_NOT_FOUND.
    """
    result = Result()
    results = []
    for group_id in request.groups_names:
        group = groups.find_any(group_id)
        code = ErrorCode.none
        if group is None:
            code = ErrorCode.group_id_not_found
        elif not group.is_empty:
            code = ErrorCode.non_empty_group
        else:
            result.records.extend(_tombstones(groups.store, group))
            result.events.append(GroupDeleted(group_id, now, Cause.ADMIN, group.group_type, group.epoch))
        results.append(DeletableGroupResult(group_id=group_id, error_code=code))
    result.reply(ticket, DeleteGroupsResponse(results=results))
    return result


def _tombstones(store: GroupStore, group: Group) -> Iterable[CoordinatorRecord]:
    group_id = group.group_id
    for topic, offsets in store.offsets_of(group_id).items():
        for partition in offsets:
            yield offset_tombstone(group_id, topic, partition)
    for topic, partition in store.partitions_in_transactions(group_id):
        if store.offset(group_id, topic, partition) is None:
            yield offset_tombstone(group_id, topic, partition)
    yield from group.tombstones()


def delete_topics(store: GroupStore, deleted_topics: Sequence[DeletedTopic]) -> Result:
    """Forget what any group committed for topics that are gone.

    An offset that names another topic id belongs to another topic.
    """
    result = Result(atomic=False)
    if not deleted_topics:
        return result
    ids_by_name: dict[str, set[bytes]] = {}
    for topic in deleted_topics:
        ids_by_name.setdefault(topic.name, {ZERO_UUID}).add(topic.topic_id)
    # There may be very many groups, and very many topics that go at once.
    for group_id, topics in store.offsets.items():
        for name, offsets in topics.items():
            if name in ids_by_name:
                ids = ids_by_name[name]
                for partition, offset in offsets.items():
                    if offset.topic_id in ids:
                        result.records.append(offset_tombstone(group_id, name, partition))
    for pending in store.pending_offsets.values():
        for (group_id, name, partition), offset in pending.items():
            if name in ids_by_name and offset.topic_id in ids_by_name[name]:
                result.records.append(offset_tombstone(group_id, name, partition))
    return result


def expire_group(groups: GroupRegistry, group_id: str, retention_ms: int, result: Result, now: Millis) -> None:
    """Forget what the group committed long ago; an empty group that has nothing left goes too.

    An offset's time begins when the group became empty; in a simple group, and for topics that a consumer group reads
    no more, with the commit. A commit that named its own expiry time is held to that. Open transactions keep what
    they touch.
    """
    store = groups.store
    group = groups.peek(group_id)
    is_anything_left = group_id in store.open_transactions
    offsets_by_topic = store.offsets_of(group_id)
    if offsets_by_topic and not group.may_expire:
        return
    for topic, offsets in offsets_by_topic.items():
        if group.is_subscribed_to(topic):
            is_anything_left = True
            continue
        for partition, offset in offsets.items():
            if _is_expired(group, offset, retention_ms, now) and not store.has_open_transaction(
                group_id, topic, partition
            ):
                result.records.append(offset_tombstone(group_id, topic, partition))
            else:
                is_anything_left = True
    if not is_anything_left and group.is_empty:
        result.records.extend(group.tombstones())
        result.events.append(GroupDeleted(group_id, now, Cause.OFFSETS_EXPIRED, group.group_type, group.epoch))


def _is_expired(group: Group, offset: CommittedOffset, retention_ms: int, now: Millis) -> bool:
    if offset.expire_timestamp_ms is not None:
        return now >= offset.expire_timestamp_ms
    since = group.expires_from_ms
    if since is None:
        since = offset.commit_timestamp_ms
    return now - since >= retention_ms
