"""The durable state of a group shard: groups and committed offsets, exactly as a replay of the log says.

Only `replay` and `replay_end_transaction_marker` change it. Offsets committed in a transaction stay aside until its
marker; they are never visible before. After Apache Kafka's `OffsetMetadataManager.replay` and
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
    """What the log of one coordinator partition says. Two stores that replayed the same log are equal."""

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
        """All classic groups; one that only ever had offsets has NO_METADATA."""
        self.consumer_groups: dict[str, ConsumerGroup] = {}
        """All consumer groups (KIP-848). No group id is in both."""
        self.index = TopicIndex()
        """Which consumer groups read which topics."""
        self.offsets: dict[str, TopicOffsets] = {}
        """Committed offsets by group."""
        self.pending_offsets: dict[ProducerId, dict[_PartitionKey, CommittedOffset]] = {}
        """Offsets of transactions that have no marker yet."""
        self.open_transactions: dict[str, dict[str, dict[PartitionIndex, set[ProducerId]]]] = {}
        """Which transactions have a pending offset, by group, topic and partition; no level is ever empty."""
        self.taken_back: set[str] = set()
        """Classic groups of which the log's last word is that they were consumer groups before.

        A hint, for whoever loads the group: its members were to join again. Compaction may take it away.
        """
        self._last_ended: tuple[str, int] = "", 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GroupStore):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__ if name not in _HINTS)

    __hash__ = None  # type: ignore[assignment]

    # Reading

    def offset(self, group_id: str, topic: str, partition: PartitionIndex) -> CommittedOffset | None:
        """What the group committed for the partition, open transactions aside."""
        offsets = self.offsets_of(group_id).get(topic)
        return None if offsets is None else offsets.get(partition)

    def offsets_of(self, group_id: str) -> Mapping[str, PartitionOffsets]:
        """All that the group committed, open transactions aside."""
        return self.offsets.get(group_id, _NO_OFFSETS)

    def offset_count(self, group_id: str) -> int:
        """How many offsets the group has committed, those of open transactions too. Cheap."""
        transactions = self.open_transactions.get(group_id)
        pending = 0 if transactions is None else sum(map(len, transactions.values()))
        return pending + sum(map(len, self.offsets_of(group_id).values()))

    def has_open_transaction(self, group_id: str, topic: str, partition: PartitionIndex) -> bool:
        """Whether a transaction that is not finished has an offset for the partition."""
        return partition in self.open_transactions.get(group_id, {}).get(topic, {})

    def partitions_in_transactions(self, group_id: str) -> Iterator[tuple[str, PartitionIndex]]:
        """The partitions that transactions which are not finished have offsets for."""
        for topic, partitions in self.open_transactions.get(group_id, {}).items():
            for partition in partitions:
                yield topic, partition

    # Replay

    def replay(self, offset: Offset, producer_id: ProducerId, record: CoordinatorRecord) -> None:
        """Apply one record. A record of a type that is no group's raises TypeError."""
        key, value = record.key, record.value
        if type(key) in CONSUMER_KEYS:
            # First, since a target is a record of each member, all replayed at once.
            replay_consumer_record(self.consumer_groups, self.index, key, value)
            if value is not None:
                # A group that has offsets before it has a record of its own was taken for a simple one.
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
        """Make the transaction's offsets visible, or forget them.

        An offset that was committed later, outside of the transaction, stands: offsets are ordered by their records.
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
        """Something is replayed that a group committed: if it has no record of its own, it is a simple group."""
        if group_id not in self.consumer_groups:
            self.groups.setdefault(group_id, NO_METADATA)

    def offsets_for(self, group_id: str, topic: str) -> PartitionOffsets:
        """Where an offset that is replayed is to be put, which makes it come into being."""
        topics = self.offsets.get(group_id)
        if topics is None:
            topics = self.offsets[group_id] = {}
        offsets = topics.get(topic)
        if offsets is None:
            # Every group that reads a topic has its name from another record.
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
        # A tombstone takes what transactions hold for the partition with it.
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
