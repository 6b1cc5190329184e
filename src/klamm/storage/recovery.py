"""What a crash left of a partition's segments, made whole.

What was not known to be on the disk before the crash (`log_sync` says how that is known) is read, the indexes are built
anew from it, and the log is cut at the first batch that is not whole.

Source: `storage/internals/log/LogLoader.java` and `LogSegment.recover` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Container

from klamm.core.log.leader_epoch import LeaderEpochs
from klamm.protocol.types import LeaderEpoch, Offset
from klamm.storage.atomic_file import sync_directory, sync_file
from klamm.storage.batch_scan import BadBatch, check_batches
from klamm.storage.damage import damage_in
from klamm.storage.epoch_recovery import note_epoch
from klamm.storage.gaps import note_gap
from klamm.storage.index_file import CorruptIndex
from klamm.storage.index_recovery import rebuild_or_fail
from klamm.storage.loaded_log import LoadRequest
from klamm.storage.log_presence import check_no_gaps, gap_after
from klamm.storage.partition_files import PartitionFiles
from klamm.storage.segment import Segment

__all__ = ["recover"]

logger = logging.getLogger(__name__)


class _MissingEnd(BadBatch):
    """A segment begins where the one before it does not end."""


class _Scan:
    """How far the walk over the batches came: the offset and the leader epoch that the next one can't be below."""

    __slots__ = ("_gaps", "_request", "epoch", "expected_offset", "new_gaps")

    def __init__(self, request: LoadRequest, expected_offset: Offset, gaps: Container[int]) -> None:
        """`gaps`: the offsets that a noted gap ends at."""
        self._request = request
        self._gaps = gaps
        self.expected_offset = expected_offset
        self.epoch = LeaderEpoch(-1)
        self.new_gaps: list[tuple[Offset, Offset]] = []
        """What was taken for gaps between segments, and is not noted yet."""

    def begin(self, base_offset: Offset) -> None:
        """Goes on with the next segment. Raises BadBatch if the end of the one before is missing.

        A cleaned segment keeps its last batch. So where one ends before the next begins, and that was not known to be
        on the disk, a power failure has taken the end of the one and left the other.
        """
        expected = self.expected_offset
        if base_offset > expected and base_offset > self._request.log_start_offset and base_offset not in self._gaps:
            if not _may_lack_ends(self._request):
                raise _MissingEnd(0, f"a segment at offset {base_offset} where {expected} is due")
            self.new_gaps.append((expected, base_offset))
        self.expected_offset = max(base_offset, expected)
        self.check(0, base_offset, self.epoch)

    def check(self, position: int, base_offset: Offset, epoch: LeaderEpoch) -> None:
        """Raises BadBatch for what the CRC does not cover: a base offset or a leader epoch that can't come here."""
        may_come_later = self._request.has_gaps or base_offset in self._gaps
        if base_offset < self.expected_offset or (base_offset > self.expected_offset and not may_come_later):
            raise BadBatch(position, f"a batch at offset {base_offset} where {self.expected_offset} is due")
        if 0 <= epoch < self.epoch:
            raise BadBatch(position, f"a batch of leader epoch {epoch} after one of {self.epoch}")
        self.epoch = max(self.epoch, epoch)


def _may_lack_ends(request: LoadRequest) -> bool:
    """Whether a segment may end before the next begins.

    Of a folder that comes without a recovery point, any segment may have been cleaned by Apache Kafka.
    """
    return request.has_gaps and request.recovery_point == 0


def recover(request: LoadRequest, files: PartitionFiles, epochs: LeaderEpochs, indexed_offset: Offset) -> Offset:
    """Checks what was not known to be on the disk, cuts it where it is not whole, and says where the log ends now.

    The indexes of segments that end at `indexed_offset` or before are believed, batches below the recovery point.
    Takes the segments that go out of `files`, and notes new leader epochs. One line in the broker's log says what was
    read and cut. Raises Damage for what was known to be on the disk and is not there, OSError.
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
        lost_bytes = _cut_away(segments, index, error.position, scan.expected_offset)
        # Else a power failure might bring it back, behind what is written in its place.
        sync_file(segments[-1].path)
        sync_directory(request.directory)
        cut = f"; {lost_bytes} bytes from there on were cut away, because of {segment.path.name}: {error}"
        break
    _note_gaps(request, scan)
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


def _note_gaps(request: LoadRequest, scan: _Scan) -> None:
    """Has the next start know of them, whatever its recovery point is."""
    for start, end in scan.new_gaps:
        note_gap(request.directory, start, end, "no recovery point was there to tell a loss from a cleaner's gap")
    if scan.new_gaps:
        sync_directory(request.directory)


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
            scan.begin(segment.base_offset)
        for position, header in check_batches(descriptor, end, start):
            if is_first and start:
                scan.expected_offset = header.base_offset
            is_first = False
            epoch = header.partition_leader_epoch
            if epoch != scan.epoch or header.base_offset != scan.expected_offset:
                scan.check(position, header.base_offset, epoch)
                note_epoch(epochs, epoch, header.base_offset)
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


def _cut_away(segments: list[Segment], index: int, position: int, log_end_offset: Offset) -> int:
    """Takes away what follows `position` in the segment at `index`, and all after it; how many bytes that was."""
    segment = segments[index]
    # A segment whose beginning is not where the log goes on can't be written to, though it may be empty: after a
    # power failure there may be the new file without the end of the old one.
    kept = index + 1 if log_end_offset >= segment.base_offset else index
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
