"""Deletion of the offsets of deleted topics, in steps: there may be very many groups and very many such topics.

After Apache Kafka's `OffsetMetadataManager.onTopicsDeleted`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

from klamm.core.coordinator.shard_contract import DeletedTopic, Result
from klamm.core.group.group_store import GroupStore
from klamm.core.group.offsets.committed_offset import CommittedOffset
from klamm.core.group.offsets.offset_records import offset_tombstone
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.types import Offset, PartitionIndex

__all__ = ["delete_offsets_of_topics"]

_Ids = Mapping[str, Set[bytes]]


def delete_offsets_of_topics(
    store: GroupStore, topics: Sequence[DeletedTopic], *, last_offset: Offset, looks_per_step: int
) -> Iterator[Result]:
    """Yields the steps that delete all offsets that groups committed for deleted topics.

    An offset with another topic id belongs to another topic. An offset without a topic id that was written after
    `last_offset` belongs to a topic that was created after the deletion.
    """
    ids: dict[str, set[bytes]] = {}
    for topic in topics:
        ids.setdefault(topic.name, {ZERO_UUID}).add(topic.topic_id)
    result = Result(atomic=False)
    for looks, found in enumerate(_offsets(store, ids), 1):
        if found is not None:
            group_id, topic_name, partition, offset = found
            if offset.topic_id in ids[topic_name] and (
                offset.topic_id != ZERO_UUID or offset.record_offset <= last_offset
            ):
                result.records.append(offset_tombstone(group_id, topic_name, partition))
        if looks % looks_per_step == 0:
            yield result
            result = Result(atomic=False)
    yield result


def _offsets(store: GroupStore, ids: _Ids) -> Iterator[tuple[str, str, PartitionIndex, CommittedOffset] | None]:
    """Yields the present offsets for topics of these names, also those in transactions, and None for other looks."""
    for group_id in list(store.offsets):
        yield None
        committed = store.offsets_of(group_id)
        names = ids.keys() if len(ids) < len(committed) else list(committed)
        for name in list(names):
            if name not in ids or name not in store.offsets_of(group_id):
                yield None
                continue
            for partition in list(store.offsets_of(group_id)[name]):
                offset = store.offset(group_id, name, partition)
                yield None if offset is None else (group_id, name, partition, offset)
    for producer_id in list(store.pending_offsets):
        for key in list(store.pending_offsets.get(producer_id, ())):
            pending = store.pending_offsets.get(producer_id, {}).get(key)
            group_id, name, partition = key
            yield None if pending is None or name not in ids else (group_id, name, partition, pending)
