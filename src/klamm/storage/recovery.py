"""Reading a partition's folder at start: at once after a clean stop, with every byte checked where a crash may have
left its marks.

What was not known to be on the disk before a crash (from the recovery point on) is read, indexes and producer state are
built anew from it, and the log is cut at the first batch that is not whole. What was known to be on the disk is never
cut: if it is damaged, the partition goes offline, and the error names the file and the offset. That is more than Kafka
does, which cuts there too.

Source: `storage/internals/log/LogLoader.java` and `LogSegment.recover` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from klamm.core.log.leader_epoch import LeaderEpochs
from klamm.core.log.producer_state import ProducerState
from klamm.protocol.types import LeaderEpoch, Millis, Offset, TopicPartition
from klamm.storage.batch_scan import BadBatch, check_batches
from klamm.storage.checkpoints import LEADER_EPOCH_FILE, MalformedCheckpoint, read_leader_epochs
from klamm.storage.cleaner.swap import finish_swaps
from klamm.storage.failed_sync import forget_cached_pages, forget_failed_sync
from klamm.storage.index_file import CorruptIndex
from klamm.storage.log_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    QUARANTINE_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_offset,
)
from klamm.storage.producer_recovery import rebuild_producer_state, segment_headers, usable_snapshots
from klamm.storage.segment import Segment, SegmentSettings
from klamm.storage.segment_search import read_next_offset

__all__ = ["DAMAGE_ADVICE", "LoadRequest", "LoadedLog", "load_log", "rebuild_indexes"]

logger = logging.getLogger(__name__)


def _ignore(size_bytes: int) -> None:
    """Nobody counts."""


class LoadRequest(NamedTuple):
    """What is known of a partition before its folder is read."""

    directory: Path
    topic_partition: TopicPartition
    settings: SegmentSettings
    recovery_point: Offset
    log_start_offset: Offset
    had_clean_shutdown: bool
    has_gaps: bool
    """Whether a cleaner may have left gaps between offsets."""
    producer_id_expiration_ms: int
    now_ms: Millis
    read_bytes: Callable[[int], object] = _ignore
    """Told, on the thread that loads, of how much was read and checked."""


class LoadedLog(NamedTuple):
    """What a partition's folder holds."""

    directory: Path
    segments: list[Segment]
    log_start_offset: Offset
    log_end_offset: Offset
    recovery_point: Offset
    leader_epochs: LeaderEpochs
    producers: ProducerState
    snapshot_offset: Offset
    """Where the newest usable snapshot of the producers was taken."""
    offline_reason: str | None = None


class _Damage(Exception):
    """Something that was on the disk is not there any more: not to be repaired by forgetting it."""


class _Files(NamedTuple):
    segments: list[Segment]
    without_index: set[int]
    snapshots: list[Offset]


def load_log(request: LoadRequest) -> LoadedLog:
    """Reads the folder, recovers what a crash left, and writes one line to the log if there was something to recover.

    A damaged partition is returned with `offline_reason`. Raises OSError for a folder that can't be read at all.
    """
    has_failed_sync = forget_cached_pages(request.directory)
    if has_failed_sync:
        request = request._replace(had_clean_shutdown=False)
    finish_swaps(request.directory)
    files = _list_files(request)
    epochs = _load_leader_epochs(request, files.segments)
    producers = ProducerState(request.producer_id_expiration_ms)
    try:
        _check_presence(request, files)
        log_end_offset = _open_clean(request, files) if request.had_clean_shutdown else _recover(request, files, epochs)
        _check_end(request, files, log_end_offset)
    except _Damage as damage:
        reason = f"{request.topic_partition} is offline: {damage}"
        logger.error("%s", reason)
        end = Offset(max(request.recovery_point, request.log_start_offset))
        return LoadedLog(
            request.directory,
            files.segments,
            request.log_start_offset,
            end,
            request.recovery_point,
            epochs,
            producers,
            end,
            reason,
        )
    segments = files.segments
    if segments and log_end_offset < request.log_start_offset:
        # Nothing that was synced lies above the log start offset, and all below was deleted.
        for segment in segments:
            segment.delete()
        segments.clear()
    if not segments:
        log_end_offset = request.log_start_offset
        segments.append(Segment.create(request.directory, log_end_offset, request.settings, created_ms=request.now_ms))
    log_start_offset = Offset(max(request.log_start_offset, segments[0].base_offset))
    epochs.truncate_from_end(log_end_offset)
    epochs.truncate_from_start(log_start_offset)
    recovery_point = log_end_offset if request.had_clean_shutdown else min(request.recovery_point, log_end_offset)
    snapshot_offset = rebuild_producer_state(
        producers,
        segments,
        usable_snapshots(request.directory, files.snapshots, segments, log_end_offset),
        log_start_offset,
        log_end_offset,
        request.now_ms,
        committed_below=Offset(recovery_point),
        may_skip=request.had_clean_shutdown,
        indexes_from=None
        if request.had_clean_shutdown or _ended_with_a_snapshot(request, files, log_end_offset)
        else _first_unsure(segments, request.recovery_point),
    )
    if has_failed_sync:
        forget_failed_sync(request.directory)
    return LoadedLog(
        request.directory,
        segments,
        log_start_offset,
        log_end_offset,
        Offset(recovery_point),
        epochs,
        producers,
        snapshot_offset,
    )


def _ended_with_a_snapshot(request: LoadRequest, files: _Files, log_end_offset: Offset) -> bool:
    """Whether the log was closed in order where it ends now: all was synced then, and nothing was written since."""
    return request.recovery_point == log_end_offset and log_end_offset in files.snapshots


def _first_unsure(segments: list[Segment], recovery_point: Offset) -> Offset:
    """The base offset of the first segment that was not wholly on the disk, whose indexes may not have been either."""
    return max(
        (segment.base_offset for segment in segments if segment.base_offset <= recovery_point),
        default=segments[0].base_offset,
    )


# -- what is there -----------------------------------------------------------------------------------------------------


def _list_files(request: LoadRequest) -> _Files:
    """The segments, oldest first, and the snapshots; what an earlier run meant to remove is removed."""
    directory = request.directory
    logs: dict[int, os.stat_result] = {}
    indexes: dict[int, int] = {}
    index_paths: list[tuple[int, str]] = []
    snapshots: list[Offset] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")):
                os.unlink(entry.path)
                continue
            offset = parse_offset(name)
            if offset is None:
                continue
            if name.endswith(LOG_SUFFIX):
                logs[offset] = entry.stat()
            elif name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)):
                index_paths.append((offset, entry.path))
                indexes[offset] = indexes.get(offset, 0) + (not name.endswith(TRANSACTION_INDEX_SUFFIX))
            elif name.endswith(SNAPSHOT_SUFFIX):
                snapshots.append(offset)
    for index_offset, path in index_paths:
        if index_offset not in logs:
            os.unlink(path)
    segments = [
        Segment(
            directory,
            Offset(base_offset),
            request.settings,
            created_ms=Millis(stat.st_mtime_ns // 1_000_000),
            size_bytes=stat.st_size,
        )
        for base_offset, stat in sorted(logs.items())
    ]
    return _Files(segments, {offset for offset in logs if indexes.get(offset) != 2}, sorted(snapshots))


def _load_leader_epochs(request: LoadRequest, segments: list[Segment]) -> LeaderEpochs:
    try:
        return LeaderEpochs(read_leader_epochs(request.directory / LEADER_EPOCH_FILE))
    except MalformedCheckpoint as error:
        logger.warning("%s: the epochs are read from the log instead", error)
    epochs = LeaderEpochs()
    for segment in segments:
        try:
            for _, header in segment_headers(segment):
                _note_epoch(epochs, header.partition_leader_epoch, header.base_offset)
        except BadBatch:
            break  # what comes of it, recovery decides
    return epochs


def _note_epoch(epochs: LeaderEpochs, epoch: LeaderEpoch, offset: Offset) -> None:
    if epoch > epochs.latest_epoch:
        epochs.assign(epoch, offset)


def _check_presence(request: LoadRequest, files: _Files) -> None:
    if not files.segments and request.recovery_point > request.log_start_offset:
        raise _Damage(
            f"{request.directory} has no segment, but records up to offset {request.recovery_point} were on the disk. "
            + DAMAGE_ADVICE
        )


def _check_end(request: LoadRequest, files: _Files, log_end_offset: Offset) -> None:
    if files.segments and log_end_offset < request.recovery_point:
        raise _Damage(
            f"{files.segments[-1].path} ends at offset {log_end_offset}, but records up to offset "
            f"{request.recovery_point} were on the disk. " + DAMAGE_ADVICE
        )


DAMAGE_ADVICE: Final = (
    "Nothing was changed. Bring the file back from a copy and start again, or keep what can still be read with "
    "`klamm log verify DIR --repair`."
)
"""What follows a report of damage."""


# -- after a clean stop ------------------------------------------------------------------------------------------------


def _open_clean(request: LoadRequest, files: _Files) -> Offset:
    for segment in files.segments:
        if segment.base_offset in files.without_index:
            logger.warning("%s has no index, which is built anew", segment.path)
            _rebuild_or_fail(segment)
    if not files.segments:
        return request.log_start_offset
    active = files.segments[-1]
    try:
        try:
            return read_next_offset(active)
        except CorruptIndex as error:
            logger.warning("%s; the index is built anew", error)
            _rebuild_or_fail(active)
            return read_next_offset(active)
    except BadBatch as error:
        raise _damage_in(active, error, None) from error
    finally:
        active.close()


def _rebuild_or_fail(segment: Segment) -> None:
    try:
        rebuild_indexes(segment)
    except BadBatch as error:
        raise _damage_in(segment, error, None) from error


def _damage_in(segment: Segment, error: BadBatch, offset: int | None) -> _Damage:
    where = f"offset {offset}, " if offset is not None else ""
    return _Damage(f"{segment.path} is damaged at {where}position {error.position}: {error}. {DAMAGE_ADVICE}")


def rebuild_indexes(segment: Segment) -> None:
    """Builds both indexes from the log, whose batches are checked, and writes them. Raises BadBatch, OSError."""
    end = segment.size_bytes
    segment.reset_indexes()
    descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for position, header in check_batches(descriptor, end):
            segment.add_to_indexes(position, header.size_bytes, header.last_offset, header.max_timestamp)
    finally:
        os.close(descriptor)
        segment.size_bytes = end
    segment.seal()
    segment.write_indexes()
    segment.close()


# -- after a crash -----------------------------------------------------------------------------------------------------


class _Scan:
    """How far the walk over the batches came: the offset and the leader epoch that the next one can't be below."""

    __slots__ = ("epoch", "expected_offset", "has_gaps")

    def __init__(self, expected_offset: Offset, has_gaps: bool) -> None:
        self.expected_offset = expected_offset
        self.epoch = LeaderEpoch(-1)
        self.has_gaps = has_gaps

    def check(self, position: int, base_offset: Offset, epoch: LeaderEpoch) -> None:
        """Raises BadBatch for what the CRC does not cover: a base offset or a leader epoch that can't come here."""
        if base_offset < self.expected_offset or (base_offset > self.expected_offset and not self.has_gaps):
            raise BadBatch(position, f"a batch at offset {base_offset} where {self.expected_offset} is due")
        if 0 <= epoch < self.epoch:
            raise BadBatch(position, f"a batch of leader epoch {epoch} after one of {self.epoch}")
        self.epoch = max(self.epoch, epoch)


def _recover(request: LoadRequest, files: _Files, epochs: LeaderEpochs) -> Offset:
    segments = files.segments
    if not segments:
        return request.log_start_offset
    started = time.perf_counter()
    first = 0
    while first + 1 < len(segments) and segments[first + 1].base_offset <= request.recovery_point:
        first += 1
    for segment in segments[:first]:
        if segment.base_offset in files.without_index:
            _rebuild_or_fail(segment)
    # Where a repair has taken damaged batches out, their offsets are gone.
    may_have_gaps = request.has_gaps or any(request.directory.glob(f"*{QUARANTINE_SUFFIX}"))
    scan = _Scan(segments[first].base_offset, may_have_gaps)
    position = _begin_at(segments[first], request.recovery_point)
    read_bytes = 0
    cut = ""
    for index in range(first, len(segments)):
        segment = segments[index]
        read_bytes += segment.size_bytes - position
        error = _recover_segment(segment, scan, epochs, position)
        request.read_bytes(segment.size_bytes - position)
        position = 0
        if error is None:
            continue
        if scan.expected_offset < request.recovery_point:
            raise _damage_in(segment, error, scan.expected_offset)
        # A segment whose beginning is not where the log goes on can't be written to, though it may be empty: after a
        # power failure there may be the new file without the end of the old one.
        kept = index + 1 if scan.expected_offset >= segment.base_offset else index
        dropped = segments[kept:]
        lost_bytes = sum(later.size_bytes for later in dropped)
        if kept > index:
            lost_bytes += segment.size_bytes - error.position
            _cut(segment, error.position)
        for later in dropped:
            later.delete()
        del segments[kept:]
        cut = f"; {lost_bytes} bytes from there on were cut away, because of {segment.path.name}: {error}"
        break
    logger.log(
        logging.WARNING if cut else logging.INFO if read_bytes else logging.DEBUG,
        "recovered %s after a crash: %d bytes read in %.3f s, recovery point %d, log end offset %d%s",
        request.topic_partition,
        read_bytes,
        time.perf_counter() - started,
        request.recovery_point,
        scan.expected_offset,
        cut,
    )
    return scan.expected_offset


def _begin_at(segment: Segment, recovery_point: Offset) -> int:
    """Where checking begins: the last batch that the disk's index knows of below the recovery point.

    What lies before was on the disk and is checked when it is first read. The index is emptied where it can't be relied
    on, and the whole segment is checked.
    """
    try:
        position = segment.resume_indexes(recovery_point)
    except (CorruptIndex, BadBatch):
        position = 0
    finally:
        segment.close()
    segment.unchecked_end = position
    return position


def _recover_segment(segment: Segment, scan: _Scan, epochs: LeaderEpochs, start: int) -> BadBatch | None:
    """Checks every batch from `start` on and adds it to the indexes, which are built anew for a whole segment; the
    first bad batch, if there is one."""
    end = segment.size_bytes
    error = None
    is_first = True
    if start == 0:
        segment.reset_indexes()
        segment.unchecked_end = 0
    descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if start == 0:
            scan.check(0, segment.base_offset, scan.epoch)
            # A cleaned segment may end before the next one begins; offsets in between were given away all the same.
            scan.expected_offset = segment.base_offset
        for position, header in check_batches(descriptor, end, start):
            if is_first and start:
                scan.expected_offset = header.base_offset
            is_first = False
            epoch = header.partition_leader_epoch
            if epoch != scan.epoch or header.base_offset != scan.expected_offset:
                scan.check(position, header.base_offset, epoch)
                _note_epoch(epochs, epoch, header.base_offset)
            segment.add_to_indexes(position, header.size_bytes, header.last_offset, header.max_timestamp)
            scan.expected_offset = header.next_offset
    except BadBatch as bad_batch:
        error = bad_batch
    finally:
        os.close(descriptor)
        segment.size_bytes = end
    if error is None:
        segment.seal()
        segment.write_indexes()
        segment.close()
    return error


def _cut(segment: Segment, position: int) -> None:
    os.truncate(segment.path, position)
    segment.size_bytes = position
    segment.seal()
    segment.write_indexes()
    segment.close()
