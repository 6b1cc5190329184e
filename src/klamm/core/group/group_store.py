"""The durable state of a group shard: groups and committed offsets, exactly as a replay of the log produces them.

Only `replay` and `replay_end_transaction_marker` change it. Offsets committed in a transaction are pending, and become
visible with the transaction's marker. After Apache Kafka's `OffsetMetadataManager.replay` and
`GroupMetadataManager.replay`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.classic.group_metadata import NO_METADATA, GroupMetadata, group_metadata
from klamm.core.group.consumer.consumer_group import ConsumerGroup
from klamm.core.group.consumer.replay import CONSUMER_KEYS, replay_consumer_record
from klamm.core.group.consumer.topic_index import TopicIndex
from klamm.core.group.offsets.committed_offset import CommittedOffset, PartitionOffsets
from klamm.core.group.offsets.offset_records import committed_offset
from klamm.protocol.schema.consumer_group_metadata_key import ConsumerGroupMetadataKey
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.group_metadata_value import GroupMetadataValue
from klamm.protocol.schema.legacy_offset_commit_key import LegacyOffsetCommitKey
from klamm.protocol.schema.legacy_offset_commit_value import LegacyOffsetCommitValue
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import Offset, PartitionIndex, ProducerId

__all__ = ["GroupStore", "TopicOffsets"]

TopicOffsets = dict[str, PartitionOffsets]
"""Committed offsets of one group, by topic and partition; neither level is ever empty."""

_NO_OFFSETS: Mapping[str, PartitionOffsets] = {}

_PartitionKey = tuple[str, str, PartitionIndex]

_HINTS = ("taken_back", "_last_ended")


class GroupStore:
    """The state in the log of one coordinator partition. Two stores that replayed the same log are equal."""

    __slots__ = (
        "_last_ended",
        "consumer_groups",
        "groups",
        "index",
        "offsets",
        "open_transactions",
        "pending_offsets",
        "taken_back",
    )

    def __init__(self) -> None:
        self.groups: dict[str, GroupMetadata] = {}
        """All classic groups; a group that only ever committed offsets has NO_METADATA."""
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        """All consumer groups (KIP-848). No group id is in both."""
        self.index = TopicIndex()
        """The consumer groups that read each topic."""
        self.offsets: dict[str, TopicOffsets] = {}
        """Committed offsets by group."""
        self.pending_offsets: dict[ProducerId, dict[_PartitionKey, CommittedOffset]] = {}
        """Offsets of transactions without a marker yet."""
        self.open_transactions: dict[str, dict[str, dict[PartitionIndex, set[ProducerId]]]] = {}
        """The transactions with a pending offset, by group, topic and partition; no level is ever empty."""
        self.taken_back: set[str] = set()
        """Classic groups that were consumer groups directly before, according to their last records in the log.

        A hint for loading the group: the downgrade asked its members to join again. Compaction may remove the hint.
        """
        self._last_ended: tuple[str, int] = "", 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GroupStore):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__ if name not in _HINTS)

    __hash__ = None  # type: ignore[assignment]

    # Reading

    def offset(self, group_id: str, topic: str, partition: PartitionIndex) -> CommittedOffset | None:
        """Returns the group's committed offset for the partition, without those of open transactions."""
        offsets = self.offsets_of(group_id).get(topic)
        return None if offsets is None else offsets.get(partition)

    def offsets_of(self, group_id: str) -> Mapping[str, PartitionOffsets]:
        """Returns all committed offsets of the group, without those of open transactions."""
        return self.offsets.get(group_id, _NO_OFFSETS)

    def offset_count(self, group_id: str) -> int:
        """Returns the number of the group's offsets, those of open transactions included. Cheap."""
        transactions = self.open_transactions.get(group_id)
        pending = 0 if transactions is None else sum(map(len, transactions.values()))
        return pending + sum(map(len, self.offsets_of(group_id).values()))

    def has_open_transaction(self, group_id: str, topic: str, partition: PartitionIndex) -> bool:
        """Returns whether an open transaction has a pending offset for the partition."""
        return partition in self.open_transactions.get(group_id, {}).get(topic, {})

    def partitions_in_transactions(self, group_id: str) -> Iterator[tuple[str, PartitionIndex]]:
        """Yields the partitions for which open transactions have pending offsets."""
        for topic, partitions in self.open_transactions.get(group_id, {}).items():
            for partition in partitions:
                yield topic, partition

    # Replay

    def replay(self, offset: Offset, producer_id: ProducerId, record: CoordinatorRecord) -> None:
        """Applies one record. Raises TypeError for a record type that does not belong to groups."""
        key, value = record.key, record.value
        if type(key) in CONSUMER_KEYS:
            # Checked first, because a new target has one record per member, all replayed at once.
            replay_consumer_record(self.consumer_groups, self.index, key, value)
            if value is not None:
                # A group whose first records were offsets was stored as a simple group.
                self.groups.pop(key.group_id, None)  # type: ignore[attr-defined]
            elif isinstance(key, ConsumerGroupMetadataKey):
                self._last_ended = key.group_id, offset
        elif isinstance(key, OffsetCommitKey | LegacyOffsetCommitKey):
            partition = PartitionIndex(key.partition)
            if value is None:
                self._drop_offset(key.group, key.topic, partition)
                return
            assert isinstance(value, OffsetCommitValue | LegacyOffsetCommitValue)
            committed = committed_offset(offset, value)
            self.note_group(key.group)
            if producer_id == -1:
                self.offsets_for(key.group, key.topic)[partition] = committed
            else:
                self._hold_offset(producer_id, (key.group, key.topic, partition), committed)
        elif isinstance(key, GroupMetadataKey):
            self.taken_back.discard(key.group)
            if value is None:
                self.groups.pop(key.group, None)
                return
            assert isinstance(value, GroupMetadataValue)
            replaced = self.consumer_groups.pop(key.group, None)
            if replaced is not None:
                replaced.forget_subscriptions()
            self.groups[key.group] = group_metadata(value)
            if self._last_ended == (key.group, offset - 1):
                self.taken_back.add(key.group)
        else:
            raise TypeError(f"not a record of groups: {type(key).__name__}")

    def replay_end_transaction_marker(self, producer_id: ProducerId, committed: bool) -> None:
        """Makes the transaction's pending offsets visible, or drops them if it was aborted.

        A later commit outside of the transaction wins: commits are ordered by the offsets of their records.
        """
        pending = self.pending_offsets.pop(producer_id, {})
        for (group_id, topic, partition), offset in pending.items():
            self._close_transaction(producer_id, group_id, topic, partition)
            if committed:
                partitions = self.offsets_for(group_id, topic)
                existing = partitions.get(partition)
                if existing is None or offset.record_offset > existing.record_offset:
                    partitions[partition] = offset

    def note_group(self, group_id: str) -> None:
        """Registers the group of a replayed offset: a group without a record of its own is a simple group."""
        if group_id not in self.consumer_groups:
            self.groups.setdefault(group_id, NO_METADATA)

    def offsets_for(self, group_id: str, topic: str) -> PartitionOffsets:
        """Returns the group's offsets for the topic, for a replay to add to; creates the entry if it is missing."""
        topics = self.offsets.get(group_id)
        if topics is None:
            topics = self.offsets[group_id] = {}
        offsets = topics.get(topic)
        if offsets is None:
            # Interned, because each group's records contain their own copy of the topic's name.
            offsets = topics[sys.intern(topic)] = PartitionOffsets()
        return offsets

    def _hold_offset(self, producer_id: ProducerId, key: _PartitionKey, committed: CommittedOffset) -> None:
        group_id, topic, partition = key
        self.pending_offsets.setdefault(producer_id, {})[key] = committed
        self.open_transactions.setdefault(group_id, {}).setdefault(topic, {}).setdefault(partition, set()).add(
            producer_id
        )

    def _drop_offset(self, group_id: str, topic: str, partition: PartitionIndex) -> None:
        topics = self.offsets.get(group_id)
        if topics is not None and topic in topics:
            if partition in topics[topic]:
                del topics[topic][partition]
            if not topics[topic]:
                del topics[topic]
            if not topics:
                del self.offsets[group_id]
        # A tombstone also removes the partition's pending offsets of transactions.
        for producer_id in list(self.open_transactions.get(group_id, {}).get(topic, {}).get(partition, ())):
            pending = self.pending_offsets[producer_id]
            del pending[group_id, topic, partition]
            if not pending:
                del self.pending_offsets[producer_id]
            self._close_transaction(producer_id, group_id, topic, partition)

    def _close_transaction(self, producer_id: ProducerId, group_id: str, topic: str, partition: PartitionIndex) -> None:
        topics = self.open_transactions[group_id]
        partitions = topics[topic]
        producers = partitions[partition]
        producers.remove(producer_id)
        if not producers:
            del partitions[partition]
        if not partitions:
            del topics[topic]
        if not topics:
            del self.open_transactions[group_id]
