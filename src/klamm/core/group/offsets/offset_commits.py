"""Decides OffsetCommit requests.

Versions 2 to 4 may contain a retention time. Version 6 added leader epochs, 7 static members, 9 consumer groups
(KIP-848), 10 topic ids. The group's kind checks the member. After Apache Kafka's `OffsetMetadataManager.commitOffset`.
Unlike Kafka, klamm does not write a commit that changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from klamm.core.coordinator.shard_contract import ClientContext, CoordinatorRecord, Result, Ticket
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.group_kind import PartitionCheck
from klamm.core.group.group_registry import GroupRegistry
from klamm.core.group.group_store import GroupStore
from klamm.core.group.offsets.committed_offset import NO_EXPIRY, NO_OFFSETS
from klamm.core.group.offsets.lingering_commits import LingeringCommits
from klamm.core.group.offsets.offset_records import offset_commit_record
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId

__all__ = ["commit_offsets", "is_longer"]

_BROKER_RETENTION = -1
_REFRESHES_PER_RETENTION = 10


def commit_offsets(
    groups: GroupRegistry,
    lingering: LingeringCommits,
    config: GroupCoordinatorConfig,
    request: OffsetCommitRequest,
    context: ClientContext,
    *,
    ticket: Ticket,
    now: Millis,
    has_written: bool,
) -> Result:
    """Commits the offsets, if the member is allowed to. Each topic has its name, and its id if that is known.

    Unchanged offsets are not written. The other records may linger, unless they create the group: other requests have
    to see that it exists.

    `has_written` is whether the shard has written a record since its load. If not, unchanged offsets are written, too:
    a replica may have another offset that an earlier coordinator has appended and that is not committed. If this
    replica is elected next, that offset replaces the acknowledged one. A committed record of this shard rules this out.

    Raises the errors of the kind's `offset_checks.py`.
    """
    result = Result()
    kind = groups.kind_of(request.group_id)
    check_partition = kind.check_commit(request, context.api_version, result)
    commit = _Commit(
        groups.store, lingering, config, request, check_partition=check_partition, now=now, has_written=has_written
    )
    topics = []
    for topic in request.topics:
        partitions = [
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            for partition, code in commit.topic(topic)
        ]
        topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
    result.records = commit.records
    response = OffsetCommitResponse(topics=topics)
    kind.note_commit(request, response)
    if (commit.records or commit.is_lingering_already) and request.group_id in kind.store.groups:
        result.linger_epoch = request.generation_id_or_member_epoch
    result.replies.append((ticket, response))
    return result


class _Commit:
    """The new offsets of one request.

    `records` are the records to write. `is_lingering_already` is set if a lingering commit has the same content; then
    the response has to wait for it.
    """

    def __init__(
        self,
        store: GroupStore,
        lingering: LingeringCommits,
        config: GroupCoordinatorConfig,
        request: OffsetCommitRequest,
        *,
        check_partition: PartitionCheck | None,
        now: Millis,
        has_written: bool,
    ) -> None:
        self.records: list[CoordinatorRecord] = []
        self.is_lingering_already = False
        self._group_id = group_id = request.group_id
        self._lingering = lingering
        self._check_partition = check_partition
        self._now = now
        self._max_metadata_length = config.offset_metadata_max_bytes
        self._committed = store.offsets_of(group_id)
        self._open_transactions = store.open_transactions.get(group_id, {})
        self._written: dict[str, set[int]] = {}
        """The partitions with a record of this request, by topic: a request may name a partition again."""
        retention_ms = request.retention_time_ms
        self._has_written = has_written
        self._expire_timestamp_ms = None if retention_ms == _BROKER_RETENTION else Millis(now + retention_ms)
        # An offset's retention starts at its commit, so an offset that is committed repeatedly must not look old.
        self._since_ms = now - config.offsets_retention_of(group_id) // _REFRESHES_PER_RETENTION

    def topic(self, topic: OffsetCommitRequestTopic) -> Iterator[tuple[OffsetCommitRequestPartition, ErrorCode]]:
        """Yields the answer for each partition of a topic, and adds new offsets to `records`.

        Raises the errors of `check_partition`.
        """
        check_partition, topic_id = self._check_partition, TopicId(topic.topic_id)
        committed = self._committed.get(topic.name, NO_OFFSETS)
        lingering = self._lingering.of_topic(self._group_id, topic.name)
        in_transactions = self._open_transactions.get(topic.name, ())
        written = self._written.setdefault(topic.name, set())
        may_be_old_news = self._expire_timestamp_ms is None
        for partition in topic.partitions:
            metadata = partition.committed_metadata or ""
            if metadata and is_longer(metadata, self._max_metadata_length):
                yield partition, ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            index = PartitionIndex(partition.partition_index)
            if check_partition is not None:
                check_partition(topic.name, topic_id, index)
            offset, leader_epoch = partition.committed_offset, partition.committed_leader_epoch
            if index in written:
                is_old_news = False
            elif may_be_old_news and lingering and index in lingering:
                is_old_news = _says(lingering[index][1], offset, leader_epoch, topic_id, metadata)
                self.is_lingering_already |= is_old_news
            else:
                # A transaction's pending offset will count as newer than the present offset.
                is_old_news = (
                    may_be_old_news
                    and self._has_written
                    and index not in in_transactions
                    and committed.says(index, offset, leader_epoch, topic_id, metadata, self._since_ms)
                )
            if not is_old_news:
                written.add(index)
                self.records.append(
                    offset_commit_record(
                        self._group_id,
                        topic.name,
                        index,
                        offset=Offset(offset),
                        leader_epoch=LeaderEpoch(leader_epoch),
                        metadata=metadata,
                        commit_timestamp_ms=self._now,
                        expire_timestamp_ms=self._expire_timestamp_ms,
                        topic_id=topic_id,
                    )
                )
            yield partition, ErrorCode.NONE


def _says(record: CoordinatorRecord, offset: int, leader_epoch: int, topic_id: bytes, metadata: str) -> bool:
    value = record.value
    assert isinstance(value, OffsetCommitValue)
    return (
        value.offset == offset
        and value.leader_epoch == leader_epoch
        and value.metadata == metadata
        and value.topic_id == topic_id
        and value.expire_timestamp == NO_EXPIRY
    )


def is_longer(text: str, max_length: int) -> bool:
    """Returns whether the text has more than `max_length` UTF-16 units, as Java counts length."""
    if len(text) > max_length:
        return True
    return not text.isascii() and len(text.encode("utf-16-le", "surrogatepass")) // 2 > max_length
