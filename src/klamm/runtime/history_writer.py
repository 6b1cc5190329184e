"""Writes the changes of this broker's groups into the topic `__group_history`.

Once a change of a group is committed, it becomes a record in the history partition that has the same index as the
group's partition in `__consumer_offsets`. No request waits for that record or fails with it. A change is dropped, with
a line in the log, if it can't be written or if too many changes are pending. Readers detect the gap by the sequence.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from klamm.core.group.history.change import Change, UnderWay
from klamm.core.group.history.history_record import CommittedOffsets, history_record
from klamm.core.group.history.trackers import GroupTrackers
from klamm.core.group.partition_traffic import Traffic
from klamm.protocol.compression import Compression
from klamm.protocol.errors import KafkaError
from klamm.protocol.records import UnstampedRecord, encode_batch
from klamm.protocol.types import LeaderEpoch, Offset, PartitionIndex
from klamm.runtime.limit_watch import LimitWatch
from klamm.runtime.ports import Cancellable, Executor, Timers, WallClock

__all__ = ["GroupHistory", "HistoryLog"]

_logger = logging.getLogger(__name__)

_LINGER_MS: Final = 10.0
"""Changes within this time are written together."""
_STEP_MS: Final = 3.0
"""After this time of writing, the event loop gets control back."""
_LATER_MS: Final = 250.0
"""Delay before the topic is created, so that its creation does not compete with the work that led to the change."""
_MAXIMUM_WEIGHT: Final = 50_000
"""Limit for the pending changes, about ten megabytes: their members before and after, plus the weight of the groups'
committed offsets, which are kept with the changes."""
_OFFSETS_PER_WEIGHT: Final = 5
"""A copy takes 30 to 60 bytes for each offset, and retains another hundred once the group commits again. Each topic
counts as much as a member."""
_LARGE_SIZE: Final = 200
"""Changes with more members than this, before and after together, are encoded outside the event loop. Encoding a change
of a group of a hundred members takes a millisecond or two."""
_RECORD_OVERHEAD_BYTES: Final = 100
_COMPRESSED_FROM_BYTES: Final = 1024
_COMPRESSION: Final = Compression.GZIP
"""Every client can read gzip without an additional library."""


class HistoryLog(Protocol):
    """The partitions of `__group_history`."""

    @property
    def is_ready(self) -> bool:
        """Whether the topic exists."""

    def make(self, done: Callable[[bool], None]) -> Cancellable:
        """Creates the topic, and calls back later: with False after a failure, which is already logged."""

    @property
    def max_batch_bytes(self) -> int:
        """The largest batch that `append` takes."""

    def append(self, partition: PartitionIndex, batch: bytes) -> Offset:
        """Appends one encoded batch as the leader. Raises KafkaError."""


class _Waiting(NamedTuple):
    partition: PartitionIndex
    coordinator_epoch: LeaderEpoch
    change: Change
    committed: CommittedOffsets
    size: int
    """Cost of encoding the change: one, plus one for each member before and after."""
    weight: int
    """Memory that the change takes, in members; see `_MAXIMUM_WEIGHT`."""


class _EncodeLarge(NamedTuple):
    """The work for the executor that encodes one large change as a batch."""

    waiting: _Waiting

    def run(self) -> bytes:
        """Returns the batch."""
        return _encode_batch([_encode(self.waiting)])


class GroupHistory:
    """The history of all groups that this broker coordinates."""

    def __init__(
        self,
        *,
        log: HistoryLog,
        timers: Timers,
        executor: Executor,
        coordinator_epoch: Callable[[PartitionIndex], LeaderEpoch | None],
        committed_offsets: Callable[[str], CommittedOffsets],
        wall_clock: WallClock,
    ) -> None:
        self._history_log = log
        self._timers = timers
        self._executor = executor
        self._is_encoding = False
        self._coordinator_epoch = coordinator_epoch
        self._committed_offsets = committed_offsets
        self._wall_clock = wall_clock
        self._trackers = GroupTrackers()
        self._limits = LimitWatch(
            self._trackers, committed_offsets, lambda partition, event: self.publish(partition, (event,))
        )
        self._looking: Cancellable | None = None
        self._waiting: deque[_Waiting] = deque()
        self._weight = 0
        self._dropped = 0
        self._alarm: Cancellable | None = None
        self._making: Cancellable | None = None
        self._is_stopped = False

    def publish(self, partition: PartitionIndex, events: Sequence[object]) -> None:
        """Enqueues the changes that follow from the events of a partition's decision. Quick, and never raises."""
        if self._is_stopped:
            return
        try:
            for change in self._trackers.take(partition, events):
                self._enqueue(partition, change)
        except Exception:
            _logger.exception("partition %d: starting the history of its groups again", partition)
            self._trackers.forget(partition)

    def under_way(self, group_id: str) -> UnderWay | None:
        """Returns the change of a group that is in progress; None if the group is stable or unknown."""
        return self._trackers.under_way(group_id)

    def on_traffic(self, traffic: Traffic) -> None:
        """Looks for groups that their partitions limit, some at a time, and records them. Never raises."""
        if not self._is_stopped and self._looking is None:
            self._look(self._limits.look(traffic, self._timers.now_ms(), self._wall_clock()))

    def on_resignation(self, partition: PartitionIndex) -> None:
        """Forgets a partition of `__consumer_offsets` that another broker leads now; that broker writes its history.

        Its pending changes are still written if this broker leads the history partition, otherwise left out.
        """
        self._trackers.forget(partition)
        self._limits.forget(partition)

    def stop(self) -> None:
        """Writes the pending changes if the topic exists, and accepts no further ones."""
        self._is_stopped = True
        for pending in (self._alarm, self._making, self._looking):
            if pending is not None:
                pending.cancel()
        if self._history_log.is_ready:
            while self._waiting:
                self._write_some(float("inf"))

    def _look(self, looks: Iterator[None]) -> None:
        self._looking = None
        deadline_ms = self._timers.now_ms() + _STEP_MS
        try:
            for _ in looks:
                if self._timers.now_ms() >= deadline_ms:
                    self._looking = self._timers.call_at(self._timers.now_ms(), lambda: self._look(looks))
                    return
        except Exception:
            _logger.exception("what limits the groups can't be told")

    def _enqueue(self, partition: PartitionIndex, change: Change) -> None:
        coordinator_epoch = self._coordinator_epoch(partition)
        if coordinator_epoch is None:
            return  # Another broker coordinates the group now, and writes its history.
        # Copied now: the record tells where the new owners start, and they may commit before it is written.
        committed = self._committed_offsets(change.group_id)
        size = 1 + len(change.before) + len(change.after)
        weight = size + len(committed) + sum(map(len, committed.values())) // _OFFSETS_PER_WEIGHT
        if self._weight + weight > _MAXIMUM_WEIGHT and self._waiting:
            if not self._dropped:
                _logger.warning("changes of groups come faster than their history can be written: some are left out")
            self._dropped += 1
            return
        self._waiting.append(_Waiting(partition, coordinator_epoch, change, committed, size, weight))
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
        _logger.warning("there is no topic for the history of groups: %d changes are left out", len(self._waiting))
        self._waiting.clear()
        self._weight = 0

    def _write_some(self, deadline_ms: float) -> None:
        """Writes pending changes until the deadline, or until a large change is next."""
        records: dict[PartitionIndex, list[UnstampedRecord]] = {}
        while self._waiting and not self._is_large_next():
            waiting = self._waiting.popleft()
            self._weight -= waiting.weight
            try:
                record = _encode(waiting)
            except Exception:
                _logger.exception("a change of group %s can't be told in its history", waiting.change.group_id)
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
        """Encodes the next change outside the event loop. It stays in the queue, so that the order is kept."""
        waiting = self._waiting[0]
        self._is_encoding = True
        self._executor.submit(_EncodeLarge(waiting), self._on_encoded)

    def _on_encoded(self, outcome: object) -> None:
        self._is_encoding = False
        if self._is_stopped:
            return  # `stop` has written all pending changes, including this one.
        waiting = self._waiting.popleft()
        self._weight -= waiting.weight
        if isinstance(outcome, bytes):
            self._append(waiting.partition, outcome, 1)
        else:
            _logger.error("a change of group %s can't be told in its history: %r", waiting.change.group_id, outcome)
        self._tell_of_dropped()
        if self._waiting:
            self._call_after(0)

    def _tell_of_dropped(self) -> None:
        if self._dropped and not self._waiting:
            _logger.warning("%d changes of groups are not in their history", self._dropped)
            self._dropped = 0

    def _append_all(self, partition: PartitionIndex, records: Sequence[UnstampedRecord]) -> None:
        try:
            max_batch_bytes = self._history_log.max_batch_bytes
        except KafkaError as error:  # this broker leads no partition of the topic
            self._tell_of_refusal(partition, len(records), error)
            return
        batch: list[UnstampedRecord] = []
        size_bytes = 0
        for record in records:
            record_bytes = len(record[1] or b"") + len(record[2] or b"") + _RECORD_OVERHEAD_BYTES
            if batch and size_bytes + record_bytes > max_batch_bytes:
                self._append(partition, _encode_batch(batch), len(batch))
                batch, size_bytes = [], 0
            batch.append(record)
            size_bytes += record_bytes
        self._append(partition, _encode_batch(batch), len(batch))

    def _append(self, partition: PartitionIndex, batch: bytes, count: int) -> None:
        try:
            self._history_log.append(partition, batch)
        except KafkaError as error:
            self._tell_of_refusal(partition, count, error)

    @staticmethod
    def _tell_of_refusal(partition: PartitionIndex, count: int, error: KafkaError) -> None:
        _logger.warning("%d changes of groups are not in their history, partition %d: %s", count, partition, error)


def _encode(waiting: _Waiting) -> UnstampedRecord:
    change = waiting.change
    record = history_record(change, waiting.coordinator_epoch, waiting.committed)
    value = json.dumps(record, separators=(",", ":")).encode()
    return (change.finished_at, change.group_id.encode(), value, ())


def _encode_batch(records: Sequence[UnstampedRecord]) -> bytes:
    return encode_batch(records, compression=_COMPRESSION, compressed_from_bytes=_COMPRESSED_FROM_BYTES)
