"""Watches the topic and both groups from outside, as any tool can: over Kafka's public protocol."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

__all__ = ["Lane", "Snapshot", "Watcher"]

INTERVAL_S: Final = 0.4
RATE_WINDOW_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Lane:
    """One partition at one moment: what is written, and where each group stands (None: no commit yet)."""

    high_watermark: int
    owner: str | None
    committed: Mapping[str, int | None]

    def lag(self, group: str) -> int | None:
        """Records that the group has not read: none where there are none, None (unknown) before its first commit."""
        committed = self.committed.get(group)
        if committed is None:
            return 0 if self.high_watermark == 0 else None
        return max(0, self.high_watermark - committed)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All lanes at one moment; `members` are the client ids in the queue's group."""

    time_s: float
    lanes: tuple[Lane, ...]
    members: frozenset[str] = field(default_factory=frozenset)


class Watcher(threading.Thread):
    """Takes a snapshot every 0.4 s in a thread of its own; `latest` is the last one, `rate` compares it with older
    ones."""

    def __init__(
        self, bootstrap_servers: str, topic: str, partitions: int, queue: str, groups: tuple[str, ...]
    ) -> None:
        super().__init__(name="watch", daemon=True)
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        self._topic = topic
        self._partitions = partitions
        self._queue = queue
        self._groups = groups
        self._stopped = threading.Event()
        nothing = Lane(0, None, dict.fromkeys(groups))
        self._history = [Snapshot(time.monotonic(), (nothing,) * partitions)]

    @property
    def latest(self) -> Snapshot:
        """The newest snapshot."""
        return self._history[-1]

    def rate(self, partition: int, group: str | None) -> float:
        """Records a second lately: committed by the group, or written where `group` is None."""
        history = self._history
        old, new = history[0], history[-1]
        seconds = new.time_s - old.time_s
        if seconds <= 0:
            return 0.0
        if group is None:
            return (new.lanes[partition].high_watermark - old.lanes[partition].high_watermark) / seconds
        before, after = old.lanes[partition].committed.get(group), new.lanes[partition].committed.get(group)
        return max(0, (after or 0) - (before or 0)) / seconds

    def run(self) -> None:
        """Watches until stopped."""
        while not self._stopped.wait(INTERVAL_S):
            try:
                snapshot = self._take()
            except KafkaException:
                continue  # a group that isn't there yet, or a broker that is going
            history = [old for old in self._history if snapshot.time_s - old.time_s <= RATE_WINDOW_S]
            self._history = [*(history or self._history[-1:]), snapshot]

    def stop(self) -> None:
        """Ends the thread and waits for it."""
        self._stopped.set()
        self.join()

    def _take(self) -> Snapshot:
        partitions = [TopicPartition(self._topic, index) for index in range(self._partitions)]
        ends = self._admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest()))
        committed = {group: self._committed(group) for group in self._groups}
        description = self._admin.describe_consumer_groups([self._queue])[self._queue].result()
        owners = {
            partition.partition: member.client_id
            for member in description.members
            for partition in member.assignment.topic_partitions
        }
        return Snapshot(
            time.monotonic(),
            tuple(
                Lane(
                    ends[partition].result().offset,
                    owners.get(partition.partition),
                    {group: committed[group].get(partition.partition) for group in self._groups},
                )
                for partition in partitions
            ),
            frozenset(member.client_id for member in description.members),
        )

    def _committed(self, group: str) -> dict[int, int]:
        result = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result()
        return {partition.partition: partition.offset for partition in result.topic_partitions if partition.offset >= 0}
