"""Recovers a partition's segments after a crash.

Data that was not known to be on the disk before the crash (see `log_sync`) is read, its indexes are rebuilt, and the
log is cut at the first incomplete batch.

Source: `storage/internals/log/LogLoader.java` and `LogSegment.recover` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Container
from struct import Struct
from typing import Final

from klamm.core.log.leader_epoch import LeaderEpochs
from klamm.protocol.record_batch import LOG_OVERHEAD_BYTES, MAGIC
from klamm.protocol.types import LeaderEpoch, Offset
from klamm.storage.atomic_file import sync_directory, sync_file
from klamm.storage.log.gaps import note_gap
from klamm.storage.recovery.epoch_recovery import note_epoch
from klamm.storage.recovery.index_recovery import rebuild_or_fail
from klamm.storage.recovery.loaded_log import LoadRequest
from klamm.storage.recovery.log_presence import check_no_gaps, gap_after
from klamm.storage.recovery.partition_files import PartitionFiles
from klamm.storage.segment.batch_scan import BadBatch, check_batches
from klamm.storage.segment.damage import damage_in
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.segment import Segment

__all__ = ["recover"]

_logger = logging.getLogger(__name__)

_PREFIX: Final = Struct(">qi4xb")
"""Base offset, length and magic of a batch."""


class _MissingEnd(BadBatch):
    """The segment begins above the end of the previous one."""


class _Scan:
    """The progress of the walk over the batches: the lowest offset and leader epoch that the next batch may have."""

    __slots__ = ("_gaps", "_request", "end_of_records", "epoch", "expected_offset", "new_gaps")

    def __init__(self, request: LoadRequest, expected_offset: Offset, gaps: Container[int]) -> None:
        """Starts a scan. `gaps` are the end offsets of the noted gaps."""
        self._request = request
        self._gaps = gaps
        self.expected_offset = expected_offset
        self.epoch = LeaderEpoch(-1)
        self.end_of_records = Offset(0)
        """The offset after the last batch. The next batch may begin later, after records that were compacted away."""
        self.new_gaps: list[tuple[Offset, Offset]] = []
        """Gaps between segments that were accepted and are not noted yet."""

    def begin(self, base_offset: Offset) -> None:
        """Continues with the next segment. Raises BadBatch if the end of the previous one is missing.

        A cleaned segment keeps its last batch. So if a segment that was not known to be on the disk ends before the
        next one begins, a power failure has taken its end and left the next segment.
        """
        expected = self.expected_offset
        if base_offset > expected and base_offset > self._request.log_start_offset and base_offset not in self._gaps:
            if not _may_lack_ends(self._request):
                raise _MissingEnd(0, f"a segment at offset {base_offset} where {expected} is due")
            self.new_gaps.append((expected, base_offset))
        self.expected_offset = max(base_offset, expected)
        self.check(0, base_offset, self.epoch)

    def check(self, position: int, base_offset: Offset, epoch: LeaderEpoch) -> None:
        """Checks a base offset and a leader epoch, which the CRC does not cover.

        Raises BadBatch if they can't follow here.
        """
        may_come_later = self._request.has_gaps or base_offset in self._gaps
        if base_offset < self.expected_offset or (base_offset > self.expected_offset and not may_come_later):
            raise BadBatch(position, f"a batch at offset {base_offset} where {self.expected_offset} is due")
        if 0 <= epoch < self.epoch:
            raise BadBatch(position, f"a batch of leader epoch {epoch} after one of {self.epoch}")
        self.epoch = max(self.epoch, epoch)


def _may_lack_ends(request: LoadRequest) -> bool:
    """Returns whether a segment may end before the next one begins.

    Without a recovery point, Apache Kafka may have cleaned any segment of the log if it may have gaps.
    """
    return request.has_gaps and request.recovery_point == 0


def recover(request: LoadRequest, files: PartitionFiles, epochs: LeaderEpochs, indexed_offset: Offset) -> Offset:
    """Checks data that was not known to be on the disk, cuts the log at the first bad batch, and returns the log end
    offset.

    Trusts the indexes of segments that end at `indexed_offset` or before, and batches below the recovery point. Removes
    the deleted segments from `files`, and assigns new leader epochs. Logs one line about what was read and cut. Raises
    Damage if data is missing that was known to be on the disk, OSError.
    """
    segments = files.segments
    if not segments:
        return request.log_start_offset
    started = time.perf_counter()
    first = 0
    while first + 1 < len(segments) and segments[first + 1].base_offset <= indexed_offset:
        first += 1
    for segment in segments[:first]:
        if segment.base_offset in files.without_index:
            rebuild_or_fail(segment)
    check_no_gaps(request, segments[: first + 1], files.gaps)
    scan = _Scan(request, segments[first].base_offset, files.gaps)
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
            if isinstance(error, _MissingEnd):
                raise gap_after(segments[index - 1], scan.expected_offset, segment.base_offset)
            raise damage_in(segment, error, scan.expected_offset)
        if index + 1 < len(segments) or not _is_incomplete(segment, error.position, scan.expected_offset):
            request.found_loss()
        lost_bytes = _cut_away(segments, index, error.position, scan.expected_offset)
        # Otherwise a power failure might bring the data back, after new records in its place.
        sync_file(segments[-1].path)
        sync_directory(request.directory)
        cut = f"; {lost_bytes} bytes from there on were cut away, because of {segment.path.name}: {error}"
        break
    _forget_unwritten(epochs, scan.epoch, scan.end_of_records)
    _note_gaps(request, scan)
    _logger.log(
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


def _is_incomplete(segment: Segment, position: int, expected_offset: Offset) -> bool:
    """Returns whether the file ends within the batch at `position`, as after a write during which the process was
    killed. Zeros and other bytes tell that the disk has lost pages. Raises OSError."""
    remaining = segment.size_bytes - position
    if remaining < _PREFIX.size:
        return True
    with segment.path.open("rb") as file:
        file.seek(position)
        base_offset, batch_length, magic = _PREFIX.unpack(file.read(_PREFIX.size))
    size = int(batch_length) + LOG_OVERHEAD_BYTES
    return bool(magic == MAGIC and base_offset >= expected_offset and size > remaining)


def _note_gaps(request: LoadRequest, scan: _Scan) -> None:
    """Notes the accepted gaps for the next start, whatever its recovery point is."""
    for start, end in scan.new_gaps:
        note_gap(
            request.directory,
            start,
            end,
            "without a recovery point, a loss can't be distinguished from a cleaner's gap",
        )
    if scan.new_gaps:
        sync_directory(request.directory)


def _begin_at(segment: Segment, recovery_point: Offset) -> int:
    """Returns the position at which to start checking: the last indexed batch below the recovery point.

    The batches before it were on the disk and are checked at their first read. If the index can't be trusted, the whole
    segment is checked.
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
    """Checks every batch from `start` on and adds it to the indexes. Returns the first bad batch, None if all are good.

    The indexes are rebuilt if the whole segment is checked.
    """
    end = segment.size_bytes
    error = None
    is_first = True
    if start == 0:
        segment.reset_indexes()
        segment.unchecked_end = 0
    descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if start == 0:
            scan.begin(segment.base_offset)
        for position, header in check_batches(descriptor, end, start):
            if is_first and start:
                scan.expected_offset = header.base_offset
            is_first = False
            epoch = header.partition_leader_epoch
            if epoch != scan.epoch or header.base_offset != scan.expected_offset:
                before = scan.epoch
                scan.check(position, header.base_offset, epoch)
                _forget_unwritten(epochs, before, scan.end_of_records)
                _forget_unwritten(epochs, epoch, Offset(header.base_offset + 1))
                note_epoch(epochs, epoch, header.base_offset)
            segment.add_to_indexes(position, header.size_bytes, header.last_offset, header.max_timestamp)
            scan.expected_offset = scan.end_of_records = header.next_offset
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


def _forget_unwritten(epochs: LeaderEpochs, last_epoch: LeaderEpoch, offset: Offset) -> None:
    """Drops the epochs that the records below `offset`, of which the last one has `last_epoch`, contradict.

    The checkpoint may be older than the records: it is written with a flush, and the crash came before.
    """
    if last_epoch >= 0:
        epochs.forget_unwritten(last_epoch, offset)


def _cut_away(segments: list[Segment], index: int, position: int, log_end_offset: Offset) -> int:
    """Removes everything after `position` in the segment at `index`, and all later segments.

    Returns the number of bytes.
    """
    segment = segments[index]
    # Without a good batch, a segment stays only if it begins at the log end offset. After a power failure a new file
    # may exist without the end of the previous one. The file of a truncated segment may exist although the previous one
    # has grown past it: the segment would hide those records, even if it is empty.
    kept = index + 1 if position or log_end_offset == segment.base_offset else index
    dropped = segments[kept:]
    lost_bytes = sum(later.size_bytes for later in dropped)
    if kept > index:
        lost_bytes += segment.size_bytes - position
        _cut(segment, position)
    for later in dropped:
        later.delete()
    del segments[kept:]
    return lost_bytes


def _cut(segment: Segment, position: int) -> None:
    os.truncate(segment.path, position)
    segment.size_bytes = position
    segment.seal()
    segment.write_indexes()
    segment.close()
