"""The producer state of one log, and its snapshots, from which recovery starts.

Source: `storage/internals/log/ProducerStateManager.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from functools import partial
from threading import Lock
from typing import NamedTuple

from klamm.core.log.compaction_batches import LastBatch
from klamm.core.log.producer_entry import ProducerCopy, ProducerEntry
from klamm.core.log.producer_state import ProducerState
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis, Offset, ProducerId
from klamm.storage.log.log_state import LogState
from klamm.storage.log.log_sync import LogSync
from klamm.storage.log.producer_snapshot import write_snapshot
from klamm.storage.log_files import SNAPSHOT_SUFFIX, file_name
from klamm.storage.recovery.producer_recovery import rebuild_in_steps
from klamm.storage.segment.batch_scan import BadBatch
from klamm.storage.segment.damage import Damage
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.segment import Segment

__all__ = ["LogProducers"]

_logger = logging.getLogger(__name__)


class _Rebuild(NamedTuple):
    """A rebuild in progress, the state to which it leads, and the segments from which it reads."""

    steps: Generator[None, None, Offset]
    state: ProducerState
    segments: list[Segment]
    now_ms: Millis


class LogProducers:
    """The producer state of one log, with its snapshots on the disk.

    `state` is the same object while the log is open, so other parts may keep a reference to it. A truncation begins a
    rebuild of it. Until that is complete, the state also has the producers of removed batches: nothing may be appended,
    and no snapshot taken. The last stable offset is right, because transactions whose marker was removed had not been
    committed.
    """

    __slots__ = ("_log", "_rebuild", "_snapshot_offset", "_sync", "snapshot_lock", "state")

    def __init__(self, log: LogState, sync: LogSync, state: ProducerState, snapshot_offset: Offset) -> None:
        """Stores the state; `snapshot_offset` is the offset of the newest snapshot on the disk."""
        self.state = state
        self._log = log
        self._sync = sync
        self._snapshot_offset = snapshot_offset
        self._rebuild: _Rebuild | None = None
        self.snapshot_lock = Lock()
        """Held while a snapshot is written, on any thread, and while the log is truncated.

        Otherwise a flush might write a snapshot of removed batches after the truncation has removed the others.
        """

    @property
    def snapshot_offset(self) -> Offset:
        """The offset of the newest snapshot on the disk."""
        return self._snapshot_offset

    def active(self) -> Iterator[tuple[ProducerId, ProducerEntry]]:
        """Iterates over the producers that the log remembers."""
        return iter(self.state)

    def last_batches(self) -> dict[ProducerId, LastBatch]:
        """Returns the last batch of each producer that the log remembers. Any thread may call it.

        A producer that writes meanwhile appears with its old or its new last batch; the new one is beyond the cleaned
        part.
        """
        result: dict[ProducerId, LastBatch] = {}
        for producer_id, entry in self.state.entries():
            last = entry.batches[-1:]
            result[ProducerId(producer_id)] = LastBatch(last[0].last_offset if last else Offset(-1), entry.epoch)
        return result

    def expire(self, now_ms: Millis) -> int:
        """Forgets producers that have not written for `producer.id.expiration.ms`, and returns their number.

        Producers with an open transaction stay: otherwise the marker would not be recognized as the end of the
        transaction.
        """
        return self.state.expire(now_ms)

    # -- rebuild after a truncation ------------------------------------------------------------------------------------

    @property
    def is_rebuilt(self) -> bool:
        """Whether the state is complete: False from a truncation until its rebuild is done."""
        return self._rebuild is None

    def begin_rebuild(self, now_ms: Millis) -> None:
        """Begins to rebuild the state of a truncated log, from the newest snapshot and the batches after it."""
        log = self._log
        segments, state = list(log.segments), self.state.empty()
        steps = rebuild_in_steps(
            state,
            segments,
            log.segments.snapshots(),
            # Not the log start offset: a crash may undo a deletion that is not on the disk yet, and the first offset of
            # a transaction must not be lost.
            log.segments[0].base_offset,
            log.log_end_offset,
            now_ms,
            committed_below=log.high_watermark,
        )
        self.drop_rebuild()
        self._rebuild = _Rebuild(steps, state, segments, now_ms)

    def rebuild_some(self) -> bool:
        """Continues the rebuild for about a millisecond. Returns whether it is complete.

        Raises `KafkaError` KAFKA_STORAGE_ERROR if the log can't be read, which leaves it offline.
        """
        rebuild = self._rebuild
        if rebuild is None:
            return True
        log = self._log
        log.check_online()
        try:
            next(rebuild.steps)
        except StopIteration as end:
            self.state.become(rebuild.state)
            self._snapshot_offset = end.value
            self._rebuild = None
            return True
        except (OSError, BadBatch, CorruptIndex, Damage) as error:
            if list(log.segments) != rebuild.segments:
                self.begin_rebuild(rebuild.now_ms)  # retention or the cleaner has removed a file
                return False
            log.mark_offline(f"its producers can't be read after a truncation: {error}")
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.offline_reason) from error
        return False

    def complete_rebuild(self) -> None:
        """Completes the rebuild at once. Raises as `rebuild_some`."""
        while not self.rebuild_some():
            pass

    def drop_rebuild(self) -> None:
        """Drops the rebuild of a log that is closed, or truncated again."""
        if self._rebuild is not None:
            self._rebuild.steps.close()
            self._rebuild = None

    def restart_at(self, offset: Offset) -> None:
        """Drops all producers of a log whose records were all removed."""
        self.drop_rebuild()
        self.state.clear(offset)
        self._snapshot_offset = offset

    # -- snapshots -----------------------------------------------------------------------------------------------------

    def take_snapshot(self) -> None:
        """Schedules a snapshot of the current producers with the next flush, so that recovery can start at the log end
        offset.

        Without the snapshot, recovery only starts earlier. Raises `KafkaError` KAFKA_STORAGE_ERROR if a rebuild can't
        be completed.
        """
        self.complete_rebuild()
        offset = self.state.end_offset = self._log.log_end_offset
        if offset > self._snapshot_offset:
            write = partial(self._write_snapshot, offset, self.state.snapshot(), self._sync.truncations)
            self._sync.write_later(write, indexed_offset=offset)

    def _write_snapshot(self, offset: Offset, producers: list[ProducerCopy], truncations: int) -> None:
        with self.snapshot_lock:
            if self._needs_snapshot(offset, truncations):
                self._write_needed_snapshot(offset, producers, truncations)

    def _write_needed_snapshot(self, offset: Offset, producers: list[ProducerCopy], truncations: int) -> None:
        path = self._log.segments.directory / file_name(offset, SNAPSHOT_SUFFIX)
        try:
            entries = [entry for producer in producers for entry in producer.snapshot_entries()]
            write_snapshot(path, entries, sync=True)
        except OSError as error:
            _logger.warning("the producer snapshot %s can't be written: %s", path, error)
            return
        if self._needs_snapshot(offset, truncations):
            self._snapshot_offset = max(self._snapshot_offset, offset)
            return
        path.unlink(missing_ok=True)
        if self._snapshot_offset == offset:
            self._snapshot_offset = Offset(offset - 1)  # it replaced the earlier snapshot of that offset

    def _needs_snapshot(self, offset: Offset, truncations: int) -> bool:
        """Returns whether a segment still begins or ends at the offset, and the log was not truncated since, perhaps
        below it."""
        log = self._log
        is_at_a_segment = offset == log.log_end_offset or any(each.base_offset == offset for each in list(log.segments))
        return is_at_a_segment and truncations == self._sync.truncations
