"""Reading a partition's folder at start: at once after a clean stop, with what a crash may have left its marks on
checked first (`recovery.py`).

What was known to be on the disk is never cut: if it is damaged, the partition goes offline, and the error names the
file and the offset. That is more than Kafka does, which cuts there too.

Source: `storage/internals/log/LogLoader.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging

from klamm.core.log.leader_epoch import LeaderEpochs
from klamm.core.log.producer_state import ProducerState
from klamm.protocol.types import Offset
from klamm.storage.batch_scan import BadBatch
from klamm.storage.cleaner.swap import finish_swaps
from klamm.storage.damage import DAMAGE_ADVICE, Damage, damage_in
from klamm.storage.epoch_recovery import load_leader_epochs
from klamm.storage.failed_sync import forget_cached_pages, forget_failed_sync
from klamm.storage.index_file import CorruptIndex
from klamm.storage.index_recovery import rebuild_or_fail
from klamm.storage.loaded_log import LoadedLog, LoadRequest
from klamm.storage.partition_files import PartitionFiles, list_files
from klamm.storage.producer_recovery import rebuild_producer_state, usable_snapshots
from klamm.storage.recovery import recover
from klamm.storage.segment import Segment
from klamm.storage.segment_search import read_next_offset

__all__ = ["load_log"]

logger = logging.getLogger(__name__)


def load_log(request: LoadRequest) -> LoadedLog:
    """Reads the folder, recovers what a crash left, and writes one line to the log if there was something to recover.

    A damaged partition is returned with `offline_reason`. Raises OSError for a folder that can't be read at all.
    """
    has_failed_sync = forget_cached_pages(request.directory)
    if has_failed_sync:
        request = request._replace(had_clean_shutdown=False)
    finish_swaps(request.directory)
    files = list_files(request)
    epochs = load_leader_epochs(request.directory, files.segments)
    producers = ProducerState(request.producer_id_expiration_ms)
    try:
        _check_presence(request, files)
        log_end_offset = _open_clean(request, files) if request.had_clean_shutdown else recover(request, files, epochs)
        _check_end(request, files, log_end_offset)
    except Damage as damage:
        return _offline(request, damage, files.segments, epochs)
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
    try:
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
    except Damage as damage:
        return _offline(request, damage, segments, epochs)
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


def _offline(request: LoadRequest, damage: Damage, segments: list[Segment], epochs: LeaderEpochs) -> LoadedLog:
    reason = f"{request.topic_partition} is offline: {damage}"
    logger.error("%s", reason)
    return LoadedLog.offline(request, reason, segments, epochs)


def _ended_with_a_snapshot(request: LoadRequest, files: PartitionFiles, log_end_offset: Offset) -> bool:
    """Whether the log was closed in order where it ends now: all was synced then, and nothing was written since."""
    return request.recovery_point == log_end_offset and log_end_offset in files.snapshots


def _first_unsure(segments: list[Segment], recovery_point: Offset) -> Offset:
    """The base offset of the first segment that was not wholly on the disk, whose indexes may not have been either."""
    return max(
        (segment.base_offset for segment in segments if segment.base_offset <= recovery_point),
        default=segments[0].base_offset,
    )


def _check_presence(request: LoadRequest, files: PartitionFiles) -> None:
    if not files.segments and request.recovery_point > request.log_start_offset:
        raise Damage(
            f"{request.directory} has no segment, but records up to offset {request.recovery_point} were on the disk. "
            + DAMAGE_ADVICE
        )


def _check_end(request: LoadRequest, files: PartitionFiles, log_end_offset: Offset) -> None:
    if files.segments and log_end_offset < request.recovery_point:
        raise Damage(
            f"{files.segments[-1].path} ends at offset {log_end_offset}, but records up to offset "
            f"{request.recovery_point} were on the disk. " + DAMAGE_ADVICE
        )


def _open_clean(request: LoadRequest, files: PartitionFiles) -> Offset:
    for segment in files.segments:
        if segment.base_offset in files.without_index:
            logger.warning("%s has no index, which is built anew", segment.path)
            rebuild_or_fail(segment)
    if not files.segments:
        return request.log_start_offset
    active = files.segments[-1]
    try:
        try:
            return read_next_offset(active)
        except CorruptIndex as error:
            logger.warning("%s; the index is built anew", error)
            rebuild_or_fail(active)
            return read_next_offset(active)
    except BadBatch as error:
        raise damage_in(active, error) from error
    finally:
        active.close()
