"""Writes what the groups of this broker go through into the topic `__group_history`.

Each change of a group becomes a record in the partition that has the index of the group's partition in
`__consumer_offsets`, once the change is committed. Nothing waits for it and nothing fails with it: what can't be
written, or would have to wait with too many others, is dropped with a line in the log, and readers see the gap by the
sequence.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from klamm.core.group.history.change import Change, UnderWay
from klamm.core.group.history.history_record import CommittedOffsets, history_record
from klamm.core.group.history.trackers import GroupTrackers
from klamm.protocol.compression import Compression
from klamm.protocol.errors import KafkaError
from klamm.protocol.records import UnstampedRecord, encode_batch
from klamm.protocol.types import LeaderEpoch, Offset, PartitionIndex
from klamm.runtime.ports import Cancellable, Executor, Timers

__all__ = ["GroupHistory", "HistoryLog"]

_log = logging.getLogger(__name__)

_LINGER_MS: Final = 10.0
"""What happens within this time is written together."""
_STEP_MS: Final = 3.0
"""Writing gives the event loop back after so long."""
_LATER_MS: Final = 250.0
"""The topic is made so long after it was first needed: whoever made the need has better things to do just then."""
_MAXIMUM_WEIGHT: Final = 50_000
"""So many members, before and after, may be in changes that wait to be written: some ten megabytes. What the groups
have committed is kept with them, and weighs as well."""
_OFFSETS_PER_WEIGHT: Final = 5
"""A copy of offsets takes 30 to 60 bytes for each, and holds on to another hundred once the group commits anew; a topic
of its own takes as much as a member."""
_LARGE_SIZE: Final = 200
"""A change of a group of a hundred members takes a millisecond or two to write; a larger one is put into words beside
the event loop."""
_RECORD_OVERHEAD_BYTES: Final = 100
_COMPRESSED_FROM_BYTES: Final = 1024
_COMPRESSION: Final = Compression.GZIP
"""The one that every client can read without another library."""


class HistoryLog(Protocol):
    """The partitions of `__group_history`."""

    @property
    def is_ready(self) -> bool:
        """Whether the topic is there."""

    def make(self, done: Callable[[bool], None]) -> Cancellable:
        """Make the topic, and call back later: with False if it could not be done, which is logged already."""

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch that `append` takes."""

    def append(self, partition: PartitionIndex, batch: bytes) -> Offset:
        """Append one encoded batch as the leader. Raises KafkaError."""


class _Waiting(NamedTuple):
    partition: PartitionIndex
    coordinator_epoch: LeaderEpoch
    change: Change
    committed: CommittedOffsets
    size: int
    """What it takes to put it into words: one for each member, before and after."""
    weight: int
    """What it takes to keep it."""


class GroupHistory:
    """The history of all groups that this broker coordinates."""

    def __init__(
        self,
        *,
        log: HistoryLog,
        timers: Timers,
        executor: Executor,
        coordinator_epoch: Callable[[PartitionIndex], LeaderEpoch],
        committed_offsets: Callable[[str], CommittedOffsets],
    ) -> None:
        self._history_log = log
        self._timers = timers
        self._executor = executor
        self._is_encoding = False
        self._coordinator_epoch = coordinator_epoch
        self._committed_offsets = committed_offsets
        self._trackers = GroupTrackers()
        self._waiting: deque[_Waiting] = deque()
        self._weight = 0
        self._dropped = 0
        self._alarm: Cancellable | None = None
        self._making: Cancellable | None = None
        self._is_stopped = False

    def publish(self, partition: PartitionIndex, events: Sequence[object]) -> None:
        """Take in what a decision of a coordinator's partition has led to. Quick, and never raises."""
        if self._is_stopped:
            return
        try:
            for change in self._trackers.take(partition, events):
                self._enqueue(partition, change)
        except Exception:
            _log.exception("partition %d: the history of its groups has to begin anew", partition)
            self._trackers.forget(partition)

    def under_way(self, group_id: str) -> UnderWay | None:
        """The change of a group that is in progress; None while the group is at rest, or not known."""
        return self._trackers.under_way(group_id)

    def on_resignation(self, partition: PartitionIndex) -> None:
        """The partition of `__consumer_offsets` is led by another broker, which tells what happens from now on."""
        self._trackers.forget(partition)

    def stop(self) -> None:
        """Write what can be written at once, and nothing more."""
        self._is_stopped = True
        for pending in (self._alarm, self._making):
            if pending is not None:
                pending.cancel()
        if self._history_log.is_ready:
            while self._waiting:
                self._write_some(float("inf"))

    def _enqueue(self, partition: PartitionIndex, change: Change) -> None:
        # The new owners will commit before this is written: where they began is what it says now.
        committed = self._committed_offsets(change.group_id)
        size = 1 + len(change.before) + len(change.after)
        weight = size + len(committed) + sum(map(len, committed.values())) // _OFFSETS_PER_WEIGHT
        if self._weight + weight > _MAXIMUM_WEIGHT and self._waiting:
            if not self._dropped:
                _log.warning("changes of groups come faster than their history can be written: some are left out")
            self._dropped += 1
            return
        self._waiting.append(_Waiting(partition, self._coordinator_epoch(partition), change, committed, size, weight))
        self._weight += weight
        if self._alarm is None and self._making is None and not self._is_encoding:
            self._call_after(_LINGER_MS if self._history_log.is_ready else _LATER_MS)

    def _call_after(self, delay_ms: float) -> None:
        self._alarm = self._timers.call_at(self._timers.now_ms() + delay_ms, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        if self._history_log.is_ready:
            self._write_some(self._timers.now_ms() + _STEP_MS)
            if self._is_large_next():
                self._write_large()
            elif self._waiting:
                self._call_after(0)
        else:
            self._making = self._history_log.make(self._on_topic_made)

    def _on_topic_made(self, is_made: bool) -> None:
        self._making = None
        if self._is_stopped:
            return
        if is_made:
            self._on_alarm()
            return
        _log.warning("there is no topic for the history of groups: %d changes are left out", len(self._waiting))
        self._waiting.clear()
        self._weight = 0

    def _write_some(self, deadline_ms: float) -> None:
        """Write what waits, until the deadline."""
        records: dict[PartitionIndex, list[UnstampedRecord]] = {}
        while self._waiting and not self._is_large_next():
            waiting = self._waiting.popleft()
            self._weight -= waiting.weight
            try:
                record = _encode(waiting)
            except Exception:
                _log.exception("a change of group %s can't be told in its history", waiting.change.group_id)
                continue
            records.setdefault(waiting.partition, []).append(record)
            if self._timers.now_ms() >= deadline_ms:
                break
        for partition, of_partition in records.items():
            self._append_all(partition, of_partition)
        self._tell_of_dropped()

    def _is_large_next(self) -> bool:
        return bool(self._waiting) and self._waiting[0].size > _LARGE_SIZE and not self._is_stopped

    def _write_large(self) -> None:
        """Have the next change put into words elsewhere. It stays the next one: all are written in their order."""
        waiting = self._waiting[0]
        self._is_encoding = True
        self._executor.submit(lambda: _encode_batch([_encode(waiting)]), self._on_encoded)

    def _on_encoded(self, outcome: object) -> None:
        self._is_encoding = False
        if self._is_stopped:
            return  # What waited then is written.
        waiting = self._waiting.popleft()
        self._weight -= waiting.weight
        if isinstance(outcome, bytes):
            self._append(waiting.partition, outcome, 1)
        else:
            _log.error("a change of group %s can't be told in its history: %r", waiting.change.group_id, outcome)
        self._tell_of_dropped()
        if self._waiting:
            self._call_after(0)

    def _tell_of_dropped(self) -> None:
        if self._dropped and not self._waiting:
            _log.warning("%d changes of groups are not in their history", self._dropped)
            self._dropped = 0

    def _append_all(self, partition: PartitionIndex, records: Sequence[UnstampedRecord]) -> None:
        batch: list[UnstampedRecord] = []
        size_bytes = 0
        for record in records:
            record_bytes = len(record[1] or b"") + len(record[2] or b"") + _RECORD_OVERHEAD_BYTES
            if batch and size_bytes + record_bytes > self._history_log.max_batch_bytes:
                self._append(partition, _encode_batch(batch), len(batch))
                batch, size_bytes = [], 0
            batch.append(record)
            size_bytes += record_bytes
        self._append(partition, _encode_batch(batch), len(batch))

    def _append(self, partition: PartitionIndex, batch: bytes, count: int) -> None:
        try:
            self._history_log.append(partition, batch)
        except KafkaError as error:
            _log.warning("%d changes of groups are not in their history, partition %d: %s", count, partition, error)


def _encode(waiting: _Waiting) -> UnstampedRecord:
    change = waiting.change
    record = history_record(change, waiting.coordinator_epoch, waiting.committed)
    value = json.dumps(record, separators=(",", ":")).encode()
    return (change.finished_at, change.group_id.encode(), value, ())


def _encode_batch(records: Sequence[UnstampedRecord]) -> bytes:
    return encode_batch(records, compression=_COMPRESSION, compressed_from_bytes=_COMPRESSED_FROM_BYTES)
