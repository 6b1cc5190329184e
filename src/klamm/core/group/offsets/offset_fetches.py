"""Decides OffsetFetch requests: returns the committed offsets of a group.

From version 2 a request may ask for all topics, and from version 8 for several groups. Version 7 added `require_stable`
(KIP-447), 10 topic ids. After Apache Kafka's `OffsetMetadataManager.fetchOffsets` and `fetchAllOffsets`.
"""

from __future__ import annotations

from typing import Final

from klamm.core.coordinator.shard_contract import Result, Ticket
from klamm.core.group.group_registry import GroupRegistry
from klamm.core.group.group_store import GroupStore
from klamm.core.group.offsets.committed_offset import NO_OFFSETS, CommittedOffset
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from klamm.protocol.schema.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from klamm.protocol.types import PartitionIndex

__all__ = ["fetch_offsets"]

_NO_OFFSET: Final = -1


def fetch_offsets(groups: GroupRegistry, request: OffsetFetchRequest, ticket: Ticket) -> Result:
    """Answers with the offsets of the request's only group; the offset is -1 for partitions and groups without one.

    With `require_stable`, a partition with a pending offset of an open transaction gets UNSTABLE_OFFSET_COMMIT. Raises
    the errors of the kind's `offset_checks.py`.
    """
    (group,) = request.groups
    groups.kind_of(group.group_id).check_fetch(group)
    store = groups.store
    topics = (
        _all_topics(store, group.group_id, request.require_stable)
        if group.topics is None
        else _named_topics(store, group, request.require_stable)
    )
    result = Result()
    result.reply(ticket, OffsetFetchResponseGroup(group_id=group.group_id, topics=topics))
    return result


def _named_topics(
    store: GroupStore, group: OffsetFetchRequestGroup, require_stable: bool
) -> list[OffsetFetchResponseTopics]:
    topics = []
    committed = store.offsets_of(group.group_id)
    for topic in group.topics or ():
        offsets = committed.get(topic.name, NO_OFFSETS)
        partitions = []
        for index in topic.partition_indexes:
            partition = PartitionIndex(index)
            offset = offsets.get(partition)
            if offset is not None and _is_of_another_topic(offset, topic.topic_id):
                offset = None
            is_unstable = require_stable and store.has_open_transaction(group.group_id, topic.name, partition)
            partitions.append(_partition(partition, offset, is_unstable))
        topics.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    return topics


def _all_topics(store: GroupStore, group_id: str, require_stable: bool) -> list[OffsetFetchResponseTopics]:
    return [
        OffsetFetchResponseTopics(
            name=topic,
            partitions=[
                _partition(partition, offset, require_stable and store.has_open_transaction(group_id, topic, partition))
                for partition, offset in offsets.items()
            ],
        )
        for topic, offsets in store.offsets_of(group_id).items()
    ]


def _partition(
    partition: PartitionIndex, offset: CommittedOffset | None, is_unstable: bool
) -> OffsetFetchResponsePartitions:
    if is_unstable or offset is None:
        return OffsetFetchResponsePartitions(
            partition_index=partition,
            committed_offset=_NO_OFFSET,
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT if is_unstable else ErrorCode.NONE,
        )
    return OffsetFetchResponsePartitions(
        partition_index=partition,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )


def _is_of_another_topic(offset: CommittedOffset, topic_id: bytes) -> bool:
    """Returns whether the offset belongs to a deleted topic of the same name, if both topic ids are known."""
    return topic_id not in (ZERO_UUID, offset.topic_id) and offset.topic_id != ZERO_UUID
