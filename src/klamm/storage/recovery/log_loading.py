"""Reads a partition's folder at start: at once after a clean shutdown, otherwise after recovery (`recovery.py`).

Records that were known to be on the disk are never cut off: if they are damaged, the partition goes offline, and the
error names the file and the offset. Kafka cuts the log there instead.

`log_sync.py` describes which files a start may trust.

Source: `storage/internals/log/LogLoader.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from klamm.core.log.leader_epoch import LeaderEpochs
from klamm.core.log.producer_state import ProducerState
from klamm.protocol.types import Offset
from klamm.storage.atomic_file import sync_directory, sync_file, write_atomically
from klamm.storage.checkpoints import LEADER_EPOCH_FILE, encode_leader_epochs
from klamm.storage.cleaner.swap import finish_swaps
from klamm.storage.log.failed_sync import (
    forget_all_cached_pages,
    forget_failed_sync,
    forget_unsynced_cached_pages,
    has_failed_sync,
)
from klamm.storage.log_files import parse_offset
from klamm.storage.recovery.epoch_recovery import load_leader_epochs
from klamm.storage.recovery.index_recovery import rebuild_or_fail
from klamm.storage.recovery.loaded_log import LoadedLog, LoadRequest
from klamm.storage.recovery.log_presence import check_beginning, check_end, check_no_gaps
from klamm.storage.recovery.partition_files import PartitionFiles, list_files
from klamm.storage.recovery.producer_recovery import newest_good_snapshot, rebuild_producer_state, usable_snapshots
from klamm.storage.recovery.recovery import recover
from klamm.storage.segment.batch_scan import BadBatch
from klamm.storage.segment.damage import Damage, damage_in
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.segment import Segment
from klamm.storage.segment.segment_search import read_next_offset

__all__ = ["load_log"]

_logger = logging.getLogger(__name__)

_NOTHING: Final = Offset(-1)
"""Lower than the offset of every snapshot, so that no snapshot is trusted."""


def load_log(request: LoadRequest) -> LoadedLog:
    """Reads the folder and recovers it after a crash. Logs one line if something had to be recovered.

    A damaged partition is returned with `offline_reason`. Raises OSError for a folder that can't be read at all.
    """
    is_marked = has_failed_sync(request.directory)
    if is_marked:
        request.found_loss()
        request = request._replace(had_clean_shutdown=False)
        forget_all_cached_pages(request.directory)
    elif not request.had_clean_shutdown:
        forget_unsynced_cached_pages(request.directory, request.recovery_point)
    finish_swaps(request.directory)
    files = list_files(request)
    if files.deleted_to > request.log_start_offset:
        request = request._replace(noted_log_start_offset=files.deleted_to)
    request = request._replace(has_gaps=request.has_gaps or files.has_copied_gaps)
    epochs, stored_epochs = load_leader_epochs(request.directory, files.segments)
    producers = ProducerState(request.producer_id_expiration_ms)
    snapshot_offset = Offset(0)
    if not request.had_clean_shutdown:
        snapshot_offset = newest_good_snapshot(request.directory, files.snapshots)
        # The snapshot guarantees the batches below it, and may be newer than the checkpoint.
        if snapshot_offset > request.recovery_point:
            sync_directory(request.directory)  # a flush writes the snapshot before it syncs the file names
            request = request._replace(recovery_point=snapshot_offset)
    try:
        check_beginning(request, files.segments)
        if request.had_clean_shutdown:
            log_end_offset = _open_clean(request, files)
        else:
            log_end_offset = recover(request, files, epochs, snapshot_offset)
        check_end(request, files.segments, log_end_offset)
    except Damage as damage:
        return _offline(request, damage, files.segments, epochs)
    segments = files.segments
    trusted_end = log_end_offset
    if not segments or log_end_offset < request.log_start_offset:
        _begin_empty(request, segments, epochs)
        log_end_offset, trusted_end = request.log_start_offset, _NOTHING
    log_start_offset = Offset(max(request.log_start_offset, segments[0].base_offset))
    epochs.truncate_from_end(log_end_offset)
    epochs.truncate_from_start(log_start_offset)
    if request.had_clean_shutdown:
        recovery_point = indexed_offset = log_end_offset
    else:
        recovery_point = min(request.recovery_point, log_end_offset)
        indexed_offset = _settle_indexes(segments, snapshot_offset, log_end_offset)
    try:
        snapshot_offset = rebuild_producer_state(
            producers,
            segments,
            usable_snapshots(request.directory, files.snapshots, segments, trusted_end),
            log_start_offset,
            log_end_offset,
            request.now_ms,
            committed_below=recovery_point,
            may_skip=request.had_clean_shutdown,
            # Without a snapshot an empty last segment may have a transaction index of lost records.
            indexes_from=None if request.had_clean_shutdown else indexed_offset,
        )
    except Damage as damage:
        return _offline(request, damage, segments, epochs)
    _tidy_up(request.directory, files)
    return LoadedLog(
        request.directory,
        segments,
        log_start_offset,
        log_end_offset,
        recovery_point,
        # The indexes of the last segment were rewritten, and are not synced.
        indexed_offset if request.had_clean_shutdown else min(indexed_offset, segments[-1].base_offset),
        epochs,
        producers,
        snapshot_offset,
        removals=files.removals,
        has_new_epochs=epochs.entries != stored_epochs,
    )


def _tidy_up(directory: Path, files: PartitionFiles) -> None:
    """Removes what the log, now known to be complete, no longer needs. Raises OSError."""
    forget_failed_sync(directory)
    bases = {segment.base_offset for segment in files.segments}
    for path in files.orphans:
        if parse_offset(path.name) not in bases:  # a new index may have the same offset
            path.unlink()


def _begin_empty(request: LoadRequest, segments: list[Segment], epochs: LeaderEpochs) -> None:
    """Replaces all segments by an empty one at the log start offset, and removes the leader epochs durably.

    Nothing that was synced lies above that offset, and everything below it was deleted. The leader epochs of deleted
    records need not be those of the records that the leader has at the offset (Kafka's `LogLoader` removes them, too).
    """
    if epochs.entries:
        epochs.clear()
        write_atomically(request.directory / LEADER_EPOCH_FILE, encode_leader_epochs(()))
        sync_directory(request.directory)
    for segment in segments:
        segment.delete()
    start = request.log_start_offset
    segments[:] = [Segment.create(request.directory, start, request.settings, created_ms=request.now_ms)]


def _offline(request: LoadRequest, damage: Damage, segments: list[Segment], epochs: LeaderEpochs) -> LoadedLog:
    reason = f"{request.topic_partition} is offline: {damage}"
    _logger.error("%s", reason)
    return LoadedLog.offline(request, reason, segments, epochs)


def _settle_indexes(segments: list[Segment], snapshot_offset: Offset, log_end_offset: Offset) -> Offset:
    """Returns the log end offset if all indexes can be trusted, else the base offset of the first segment with
    untrusted ones.

    After the return, trusted indexes have no entries of lost records, even after a power failure. Raises OSError.
    """
    if snapshot_offset < log_end_offset:
        return max(
            (each.base_offset for each in segments if each.base_offset <= snapshot_offset),
            default=segments[0].base_offset,
        )
    _cut_and_sync_indexes(segments[-1], log_end_offset)
    return log_end_offset


def _cut_and_sync_indexes(segment: Segment, log_end_offset: Offset) -> None:
    """Removes entries beyond the log end offset from the last segment's indexes, and syncs them. Raises OSError.

    The snapshot guarantees these indexes, and after a roll at exactly this offset no start checks them again.
    """
    with suppress(CorruptIndex):  # the first read that needs the index rebuilds it
        segment.transaction_index.truncate_to(log_end_offset)
    for index in (segment.offset_index, segment.time_index, segment.transaction_index):
        with suppress(FileNotFoundError):  # a segment without aborted transactions has no such file
            sync_file(index.path)


def _open_clean(request: LoadRequest, files: PartitionFiles) -> Offset:
    for segment in files.segments:
        if segment.base_offset in files.without_index:
            _logger.warning("%s has no index, which is rebuilt", segment.path)
            rebuild_or_fail(segment)
    if not files.segments:
        return request.log_start_offset
    check_no_gaps(request, files.segments, files.gaps)
    active = files.segments[-1]
    try:
        try:
            return read_next_offset(active)
        except CorruptIndex as error:
            _logger.warning("%s; the index is rebuilt", error)
            rebuild_or_fail(active)
            return read_next_offset(active)
    except BadBatch as error:
        raise damage_in(active, error) from error
    finally:
        active.close()
