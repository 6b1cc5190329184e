"""Restores the producer state of a log from the newest valid snapshot and the batches after it.

In addition it restores the aborted transactions where the transaction indexes can't be trusted.

Source: `UnifiedLog.rebuildProducerState`, `ProducerStateManager.removeStraySnapshots` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

from klamm.core.log.producer_state import ProducerState
from klamm.protocol.control_batch import EndTransactionMarker, read_end_transaction_marker
from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import BatchHeader, batch_crc_is_valid
from klamm.protocol.records import iterate_records
from klamm.protocol.types import Millis, Offset
from klamm.storage.atomic_file import sync_directory
from klamm.storage.log.producer_snapshot import CorruptSnapshot, read_snapshot
from klamm.storage.log_files import SNAPSHOT_SUFFIX, file_name, parse_offset
from klamm.storage.segment.batch_scan import BadBatch, ScannedBatch, scan_headers
from klamm.storage.segment.damage import damage_in
from klamm.storage.segment.segment import Segment
from klamm.storage.segment.transaction_index import AbortedTransaction, TransactionIndex

__all__ = [
    "marker_of",
    "newest_good_snapshot",
    "rebuild_in_steps",
    "rebuild_producer_state",
    "rebuild_transaction_index",
    "segment_headers",
    "usable_snapshots",
]

_logger = logging.getLogger(__name__)

_NO_EXPIRATION_MS: Final = 2**62
_BATCHES_AT_ONCE: Final = 200
"""Number of batches in a step of a rebuild; a step takes about a millisecond."""


def usable_snapshots(
    directory: Path, snapshots: list[Offset], segments: list[Segment], trusted_end: Offset
) -> list[Path]:
    """Returns the snapshot files to keep, oldest first, and removes the others.

    `trusted_end`: above this offset the log may hold other records than those of a snapshot, because it was truncated,
    or because a power failure took the end of a segment. A later start would trust such a snapshot. A snapshot from
    before the first segment lacks what was deleted since, for example the end of a transaction. Kafka removes it as
    well (`truncateAndReload`). Of the others, those at the beginning of a segment are kept, so that recovery can start
    there, and the newest one.
    """
    keep = {segment.base_offset for segment in segments}
    start = segments[0].base_offset
    usable = [offset for offset in snapshots if start <= offset <= trusted_end]
    kept = []
    for offset in snapshots:
        path = directory / file_name(offset, SNAPSHOT_SUFFIX)
        if start <= offset <= trusted_end and (offset in keep or offset == usable[-1]):
            kept.append(path)
        else:
            path.unlink(missing_ok=True)
    if usable != snapshots:
        # The removed snapshots describe lost records. They must not reappear for new records with the same offsets.
        sync_directory(directory)
    return kept


def newest_good_snapshot(directory: Path, snapshots: list[Offset]) -> Offset:
    """Returns the offset of the newest snapshot with a valid CRC, 0 without one. Raises OSError."""
    for offset in reversed(snapshots):
        try:
            read_snapshot(directory / file_name(offset, SNAPSHOT_SUFFIX))
        except CorruptSnapshot:
            continue
        return offset
    return Offset(0)


def rebuild_producer_state(  # noqa: PLR0917 - all of a log that bears on it
    producers: ProducerState,
    segments: list[Segment],
    snapshots: list[Path],
    log_start_offset: Offset,
    log_end_offset: Offset,
    now_ms: Millis,
    *,
    committed_below: Offset,
    may_skip: bool = False,
    indexes_from: Offset | None = None,
) -> Offset:
    """Restores `producers` at the end of the log from the newest valid snapshot and the batches after it.

    `committed_below`: the high watermark will be at least this offset when the log is read; transactions that ended
    below it are not kept. `may_skip`: a cleanly closed log has a snapshot if it ever had a producer, so without one
    nothing is read. `indexes_from`: the transaction indexes of the segments from this base offset on are rebuilt as
    well, so later snapshots are not used.

    Returns the offset of the newest valid snapshot; without one, the offset at which reading began. Raises OSError, and
    Damage for a bad batch: without its content, retries would be accepted as new batches, and aborted records as
    committed ones.
    """
    steps = rebuild_in_steps(
        producers,
        segments,
        snapshots,
        log_start_offset,
        log_end_offset,
        now_ms,
        committed_below=committed_below,
        may_skip=may_skip,
        indexes_from=indexes_from,
    )
    while True:
        try:
            next(steps)
        except StopIteration as end:
            newest_offset: Offset = end.value
            return newest_offset


def rebuild_in_steps(  # noqa: PLR0917 - all of a log that bears on it
    producers: ProducerState,
    segments: list[Segment],
    snapshots: list[Path],
    log_start_offset: Offset,
    log_end_offset: Offset,
    now_ms: Millis,
    *,
    committed_below: Offset,
    may_skip: bool = False,
    indexes_from: Offset | None = None,
) -> Generator[None, None, Offset]:
    """Does the same as `rebuild_producer_state`, some batches per step. The log must not be appended to meanwhile."""
    # Deleted records of the first segment are still in its file, and determine the next sequence of a producer. So they
    # are read where segments are read again, as in Kafka.
    producers.clear(log_start_offset if indexes_from is None else segments[0].base_offset)
    if not snapshots and may_skip:
        producers.end_offset = log_end_offset
    newest_offset = producers.end_offset
    is_newest = True
    for path in reversed(snapshots):
        try:
            entries = read_snapshot(path)
        except CorruptSnapshot as error:
            _logger.warning("%s can't be used: %s", path, error)
            path.unlink(missing_ok=True)
            continue
        offset = parse_offset(path.name) or Offset(0)
        if is_newest:
            newest_offset, is_newest = offset, False
        if indexes_from is None or offset <= indexes_from:
            producers.load(entries, offset)
            break
    idle = producers.expired(now_ms)
    snapshot_offset = expected_offset = producers.end_offset
    for index, segment in enumerate(segments):
        if expected_offset < segment.base_offset <= log_start_offset:
            # Deleted records whose file was lost. In a compacted log, gaps above the log start offset are normal.
            producers.forget_ongoing_transactions()
        is_known = index + 1 < len(segments) and segments[index + 1].base_offset <= snapshot_offset
        is_indexed_anew = indexes_from is not None and segment.base_offset >= indexes_from
        if (is_known or snapshot_offset >= log_end_offset) and not is_indexed_anew:
            expected_offset = max(expected_offset, segments[index + 1].base_offset if is_known else log_end_offset)
            continue
        transaction_index = segment.transaction_index if is_indexed_anew else None
        try:
            end_offset = yield from _replay(producers, segment, snapshot_offset, transaction_index, committed_below)
        except BadBatch as error:
            raise damage_in(segment, error) from error
        expected_offset = max(expected_offset, end_offset)
    producers.end_offset = log_end_offset
    # Not before: a producer that was idle at the snapshot and has written since must keep the batches from before, of
    # which it may send one again.
    producers.forget(idle)
    return newest_offset


def rebuild_transaction_index(
    segments: list[Segment], snapshots: list[Path], log_start_offset: Offset, end_offset: Offset
) -> None:
    """Rebuilds the transaction index of the last of `segments` from the log and writes it.

    `segments` begins with the segments before it. If the disk refuses the index, it stays in memory until a later
    write. Raises Damage, or OSError if the log can't be read; the index is then unchanged.
    """
    index = segments[-1].transaction_index
    try:
        rebuild_producer_state(
            ProducerState(_NO_EXPIRATION_MS),
            segments,
            snapshots,
            log_start_offset,
            end_offset,
            Millis(0),
            committed_below=end_offset,
            indexes_from=segments[-1].base_offset,
        )
    except OSError as error:
        if not index.has_unwritten_entries:
            raise
        _logger.warning("%s can't be written and is kept in memory: %s", index.path, error)


def _replay(
    producers: ProducerState,
    segment: Segment,
    from_offset: Offset,
    transaction_index: TransactionIndex | None,
    committed_below: Offset,
) -> Generator[None, None, Offset]:
    """Replays the segment's batches from `from_offset` on, and appends aborted transactions to the index if one is
    given.

    Returns the segment's end offset. Raises BadBatch, OSError.
    """
    header = None
    left = _BATCHES_AT_ONCE
    descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    if transaction_index is not None:
        transaction_index.reset()
    try:
        for position, header in scan_headers(descriptor, 0, segment.size_bytes):
            left -= 1
            if not left:
                yield
                left = _BATCHES_AT_ONCE
            if not header.has_producer_id or header.last_offset < from_offset:
                continue
            marker = _read_marker(descriptor, position, header) if header.is_control else None
            completed = producers.record(header, header.base_offset, marker)
            if completed is None:
                continue
            if completed.is_aborted and transaction_index is not None:
                transaction_index.append(AbortedTransaction.from_completed(completed, producers.transactions))
            producers.transactions.complete_found(completed, committed_below)
    except (BadBatch, OSError):
        if transaction_index is not None:
            transaction_index.discard()  # an incomplete index would mean that the remaining transactions were committed
        raise
    finally:
        os.close(descriptor)
    if transaction_index is not None:
        transaction_index.write()
    return segment.base_offset if header is None else header.next_offset


def _read_marker(descriptor: int, position: int, header: BatchHeader) -> EndTransactionMarker | None:
    """Reads a marker. Raises BadBatch, also for a wrong CRC, because one wrong bit can turn a commit into an abort."""
    data = os.pread(descriptor, header.size_bytes, position)
    try:
        if not batch_crc_is_valid(data, 0, header):
            raise BadBatch(position, f"the CRC of the batch at offset {header.base_offset} does not match its bytes")
        return marker_of(data)
    except KafkaError as error:
        raise BadBatch(position, str(error)) from error


def marker_of(records: memoryview | bytes) -> EndTransactionMarker | None:
    """Returns the marker in a control batch; None if a cleaner has emptied the batch, or if it holds another record.

    Raises `KafkaError` CORRUPT_MESSAGE or INVALID_RECORD if the batch is not a control batch.
    """
    for record in iterate_records(records):
        return read_end_transaction_marker(record)
    return None


def segment_headers(segment: Segment) -> Iterator[ScannedBatch]:
    """Yields all batches of a segment whose file need not be open. Raises BadBatch, OSError."""
    descriptor = os.open(segment.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield from scan_headers(descriptor, 0, segment.size_bytes)
    finally:
        os.close(descriptor)
