"""What workers say in their commits: which records are in flight, and what holds a commit up.

A worker (`klamm.worker`) writes this into the metadata of each commit, so that it can be read on any Kafka cluster,
without a connection to the worker.
"""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from klamm.client.commit_metadata import metadata_of
from klamm.core.delivery.commit_text import CommitNote, decode_note
from klamm.insight.cluster_access import ClusterAccess
from klamm.insight.group.group_offsets import end_offsets, lag
from klamm.insight.words import PartitionKey, count, span
from klamm.protocol.types import Offset

__all__ = ["WorkerCommit", "worker_commits"]


@dataclass(frozen=True, slots=True)
class WorkerCommit:
    """The last commit of a worker for one partition."""

    topic: str
    partition: int
    committed: int
    high_watermark: int | None
    lag: int | None
    in_flight: int
    """Records that the worker has read and not finished."""
    finished_beyond: int
    """Offsets beyond the committed one whose records are finished."""
    held_ms: int | None
    """How long the record at the committed offset holds the commit up; None if the worker does not have it."""
    attempts: int
    """How many times the handler was called for that record."""
    hot_key: str | None
    """The beginning of the key with the most records in flight, if a key has more than one."""
    hot_records: int

    @property
    def in_words(self) -> str:
        """What holds the commit up; the empty text if nothing is in flight."""
        if self.held_ms is None:
            return ""
        text = f"{self.topic}-{self.partition}: offset {self.committed} has held up the commit for {span(self.held_ms)}"
        if self.attempts > 1:
            text += f", attempt {self.attempts}"
        elif not self.attempts:
            text += ", its handler was not called yet"
        if self.finished_beyond:
            text += f"; {count(self.finished_beyond, 'offset')} beyond it are finished"
        if self.hot_key is not None:
            text += f"; the key {self.hot_key} has {self.hot_records:,} of {count(self.in_flight, 'record')} in flight"
        return text


def worker_commits(access: ClusterAccess, admin: AdminClient, group: str, now_ms: int) -> list[WorkerCommit]:
    """Returns what the group's commits say, by partition. Raises ClusterError."""
    request = ConsumerGroupTopicPartitions(group)
    result = access.result_of(admin.list_consumer_group_offsets([request])[group])
    notes: dict[PartitionKey, tuple[int, CommitNote]] = {}
    for each in result.topic_partitions:
        if each.error is None and each.offset >= 0:
            note = decode_note(Offset(each.offset), metadata_of(each))
            notes[each.topic, each.partition] = each.offset, note
    ends = end_offsets(access, admin, notes)
    found = []
    for key, (offset, note) in sorted(notes.items()):
        log_start, high_watermark = ends.get(key, (None, None))
        found.append(
            WorkerCommit(
                *key,
                committed=offset,
                high_watermark=high_watermark,
                lag=lag(offset, log_start, high_watermark),
                in_flight=note.in_flight,
                finished_beyond=sum(end - first for first, end in note.finished),
                held_ms=max(0, now_ms - note.since_ms) if note.in_flight else None,
                attempts=note.attempts,
                hot_key=None if note.hot_key is None else note.hot_key.decode("utf-8", "backslashreplace"),
                hot_records=note.hot_records,
            )
        )
    return found
