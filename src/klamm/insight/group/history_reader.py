"""The history of one group, read from its partition of the topic `__group_history`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Message

from klamm.core.coordinator.java_hash import partition_for
from klamm.core.group.history.history_record import HistoryRecord, NotUnderstood
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.errors import HistoryMissing
from klamm.insight.group.history_timeline import Entry, Repeat, Timeline
from klamm.insight.group.member_names import MemberNames
from klamm.insight.topic.partition_records import END, PartitionReader
from klamm.protocol.internal_topic_names import HISTORY_TOPIC

__all__ = ["HistoryReader", "Told"]


class Told(NamedTuple):
    """One record of the history, decoded."""

    offset: int
    data: dict[str, Any] | None
    """The record's JSON object; None if the value is no JSON."""
    record: HistoryRecord | None
    entries: list[Entry]
    complaint: str | None
    """Why the record can't be understood."""

    @property
    def change(self) -> HistoryRecord | None:
        """The record; None if it was not understood, or repeats an earlier record."""
        return None if any(isinstance(entry, Repeat) for entry in self.entries) else self.record


class HistoryReader:
    """Reads the history of one group in order. Methods raise ClusterError."""

    def __init__(self, access: ClusterAccess, group: str, *, follow: bool = False) -> None:
        self.names = MemberNames()
        """The names of all members in the records read so far."""
        self._access = access
        self._group = group
        self._reader = PartitionReader(access, follow=follow)
        self._timeline = Timeline()
        count = self._reader.partition_count(HISTORY_TOPIC)
        self._partition = partition_for(group, count) if count is not None else None

    def read(self, since_ms: int | None = None) -> Iterator[Told | None]:
        """Yields every change of the group that ended at or after `since_ms`, and END each time the end is reached.

        Records that were not understood come too. Raises HistoryMissing if the cluster has no history.
        """
        if self._partition is None:
            raise HistoryMissing(
                f"{self._access.bootstrap_servers} has no topic {HISTORY_TOPIC}: a klamm broker makes it with the "
                "first change of a group, Apache Kafka keeps no such history"
            )
        start = self._start(since_ms)
        for message in self._reader.read(HISTORY_TOPIC, self._partition, start):
            told = self._told(message) if message is not None else None
            if message is END or (told is not None and _is_since(told, since_ms)):
                yield told

    def start(self, since_ms: int | None = None) -> None:
        """Begins to read at `since_ms`, or at the beginning; `available` returns the records.

        Does nothing if the cluster has no history.
        """
        if self._partition is not None:
            self._reader.start(HISTORY_TOPIC, self._partition, self._start(since_ms))

    def look_again(self, partition_counts: Mapping[str, int]) -> None:
        """Begins to read a history that is created after the start, with the first change of any group."""
        if self._partition is None and HISTORY_TOPIC in partition_counts:
            self._partition = partition_for(self._group, partition_counts[HISTORY_TOPIC])
            self.start()

    def available(self, patience_s: float) -> list[Told]:
        """Returns the group's records up to the end; stops early if no record arrives for `patience_s`."""
        if self._partition is None:
            return []
        return [told for told in map(self._told, self._reader.available(patience_s)) if told is not None]

    def close(self) -> None:
        """Closes the consumer."""
        self._reader.close()

    def _start(self, since_ms: int | None) -> int:
        if since_ms is None or self._partition is None:
            return OFFSET_BEGINNING
        return self._reader.offset_at(HISTORY_TOPIC, self._partition, since_ms)

    def _told(self, message: Message) -> Told | None:
        """Returns the decoded record; None for another group's record or a tombstone."""
        value = message.value()
        if message.key() != self._group.encode() or value is None:
            return None
        return self._understood(message.offset() or 0, bytes(value))

    def _understood(self, offset: int, value: bytes) -> Told:
        try:
            data = json.loads(value)
        except (ValueError, RecursionError):
            data = None
        try:
            record = HistoryRecord.decode(value)
        except NotUnderstood as error:
            return Told(offset, data if isinstance(data, dict) else None, None, [], str(error))
        for member in record.members.values():
            self.names.add(member.member_id, member.instance_id, member.client_id)
        return Told(offset, data, record, self._timeline.add(record), None)


def _is_since(told: Told, since_ms: int | None) -> bool:
    return told.record is None or since_ms is None or told.record.finished_ms >= since_ms
