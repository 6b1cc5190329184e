"""Verifies a partition's folder: every batch of every segment, and whether the other files fit the log.

Nothing is changed. The checks include those of `kafka-dump-log --index-sanity-check` and `--verify-index-only`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from klamm.protocol.types import Offset
from klamm.storage.checkpoints import LEADER_EPOCH_FILE, MalformedCheckpoint, read_leader_epochs
from klamm.storage.inspection.findings import Finding, Mend, MendKind, PartitionReport, Severity
from klamm.storage.inspection.index_check import OffsetIndexCheck, TimeIndexCheck
from klamm.storage.inspection.segment_walk import BadRange, GoodBatch, walk
from klamm.storage.log.failed_sync import FAILED_SYNC_FILE
from klamm.storage.log.gaps import GAP_SUFFIX
from klamm.storage.log.producer_snapshot import CorruptSnapshot, read_snapshot
from klamm.storage.log_files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    QUARANTINE_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    deleted_to,
    file_name,
    parse_offset,
)
from klamm.storage.recovery.producer_recovery import newest_good_snapshot
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.transaction_index import TransactionIndex

__all__ = ["KnownOfPartition", "verify_missing", "verify_partition"]


class KnownOfPartition(NamedTuple):
    """Facts about a partition from outside its folder."""

    recovery_point: int = 0
    """All records below this offset were on the disk."""
    log_start_offset: int | None = None
    """The noted log start offset, None if none was noted."""
    is_compacted: bool | None = None
    """Whether a cleaner may have left gaps; None if unknown."""
    is_closed: bool = False
    """Whether the last shutdown was clean. If so, the log has no torn tail."""
    is_live: bool = False
    """Whether a broker may be writing to the partition now."""


def verify_partition(folder: Path, known: KnownOfPartition) -> PartitionReport:
    """Returns a report of the folder's content and its problems. Raises OSError."""
    report = PartitionReport(folder)
    names = sorted(path.name for path in folder.iterdir())
    bases = _offsets(names, LOG_SUFFIX)
    snapshot_offset = newest_good_snapshot(folder, _offsets(names, SNAPSHOT_SUFFIX))
    known = known._replace(recovery_point=max(known.recovery_point, snapshot_offset))
    gaps = set(_offsets(names, GAP_SUFFIX))
    log_start_offset = max([known.log_start_offset or 0, *(deleted_to(name) or 0 for name in names)])
    lacks_nothing = known.recovery_point <= log_start_offset  # all records that were on the disk are deleted
    if not bases and not lacks_nothing:
        _report_nothing_left(report, "there is no segment", known)
        return report
    if bases and known.log_start_offset is not None and bases[0] > log_start_offset:
        report.add([_missing_beginning(folder, log_start_offset, bases[0])])
    expected = bases[0] if bases else 0
    for number, base_offset in enumerate(bases):
        limit = bases[number + 1] if number + 1 < len(bases) else None
        if base_offset > max(expected, log_start_offset) and base_offset not in gaps:
            report.add([_gap_between(folder, expected, base_offset, known)])
        expected = _verify_segment(report, base_offset, limit, known)
    report.log_end_offset = expected
    is_short = known.recovery_point > expected and not lacks_nothing
    if bases and is_short and not any(finding.mend for finding in report.findings):
        path = folder / file_name(bases[-1], LOG_SUFFIX)
        text = f"it ends at offset {expected}, but records up to offset {known.recovery_point} were on the disk"
        report.add([Finding(Severity.DAMAGE, path, text, offset=expected, mend=Mend(MendKind.ACCEPT, path))])
    report.add(_other_files(folder, names))
    return report


def verify_missing(folder: Path, known: KnownOfPartition) -> PartitionReport:
    """Returns a report for a partition whose folder is gone."""
    report = PartitionReport(folder)
    if known.is_compacted is None:
        text = f"it is gone; records up to offset {known.recovery_point} were on the disk, unless the topic was deleted"
        report.add([Finding(Severity.NOTE, folder, text)])
    else:
        _report_nothing_left(report, "it is gone", known)
    return report


def _offsets(names: Sequence[str], suffix: str) -> list[Offset]:
    return [offset for name in names if name.endswith(suffix) and (offset := parse_offset(name)) is not None]


def _report_nothing_left(report: PartitionReport, what: str, known: KnownOfPartition) -> None:
    report.log_end_offset = end = known.recovery_point
    mend = Mend(MendKind.BEGIN_AGAIN, report.folder, log_start_offset=end)
    text = f"{what}, but records up to offset {end} were on the disk"
    report.add([Finding(Severity.DAMAGE, report.folder, text, offset=known.log_start_offset or 0, mend=mend)])


def _missing_beginning(folder: Path, log_start_offset: int, base_offset: int) -> Finding:
    text = f"the log begins at offset {log_start_offset}, and the offsets up to {base_offset - 1} are missing before it"
    path = folder / file_name(base_offset, LOG_SUFFIX)
    mend = Mend(MendKind.ACCEPT_START, path, log_start_offset=base_offset)
    return Finding(Severity.DAMAGE, path, text, offset=log_start_offset, mend=mend)


def _gap_between(folder: Path, expected: int, base_offset: int, known: KnownOfPartition) -> Finding:
    text = f"the offsets {expected} to {base_offset - 1} are missing before it"
    path = folder / file_name(base_offset, LOG_SUFFIX)
    if known.is_compacted is None:
        return Finding(Severity.NOTE, path, f"{text}, which Apache Kafka leaves in compacted topics", offset=expected)
    mend = Mend(MendKind.ACCEPT_GAP, path, gaps=((expected, base_offset),))
    return Finding(Severity.DAMAGE, path, text, offset=expected, mend=mend)


# -- segments ----------------------------------------------------------------------------------------------------------


def _verify_segment(report: PartitionReport, base_offset: int, limit: int | None, known: KnownOfPartition) -> int:
    """Verifies a segment and its indexes.

    Returns the offset after its last good batch, or after the damage at its end if that offset is known.
    """
    path = report.folder / file_name(base_offset, LOG_SUFFIX)
    checks: tuple[OffsetIndexCheck | TimeIndexCheck, ...] = (
        OffsetIndexCheck(path.with_suffix(INDEX_SUFFIX), base_offset),
        TimeIndexCheck(path.with_suffix(TIME_INDEX_SUFFIX), base_offset),
    )
    keep: list[tuple[int, int]] = []
    bad: list[tuple[BadRange, int]] = []
    gaps: list[tuple[int, int]] = []
    next_offset = base_offset
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        size = os.fstat(descriptor).st_size
        for found in walk(descriptor, size, first_offset=base_offset, offset_limit=limit):
            if isinstance(found, BadRange):
                bad.append((found, next_offset))
                continue
            if bad and bad[-1][0].end == found.position and found.header.base_offset > next_offset:
                gaps.append((next_offset, found.header.base_offset))
            _extend(keep, found)
            for check in checks:
                check.batch(found)
            report.batches += 1
            next_offset = found.header.next_offset
    finally:
        os.close(descriptor)
    report.segments += 1
    report.size_bytes += size
    if bad and bad[-1][0].end == size and limit is not None and limit > next_offset:
        gaps.append((next_offset, limit))
        next_offset = limit
    segment = _Segment(path, base_offset, size, tuple(keep), tuple(bad), tuple(gaps), is_last=limit is None)
    report.add(_judge(segment, known))
    if not bad:
        # The indexes of a damaged segment are rebuilt anyway.
        report.add(finding for check in checks for finding in check.findings())
        report.add(_transaction_index(path.with_suffix(TRANSACTION_INDEX_SUFFIX), base_offset))
    return next_offset


def _extend(keep: list[tuple[int, int]], batch: GoodBatch) -> None:
    if keep and keep[-1][1] == batch.position:
        keep[-1] = (keep[-1][0], batch.end)
    else:
        keep.append((batch.position, batch.end))


class _Segment(NamedTuple):
    """A verified segment. Each damaged range comes with the offset that was expected there."""

    path: Path
    base_offset: int
    size_bytes: int
    keep: tuple[tuple[int, int], ...]
    bad: tuple[tuple[BadRange, int], ...]
    gaps: tuple[tuple[int, int], ...]
    """The offsets that are lost with the damaged ranges."""
    is_last: bool


def _judge(segment: _Segment, known: KnownOfPartition) -> Iterator[Finding]:
    path = segment.path
    for found, offset in segment.bad:
        is_tail = segment.is_last and found.end == segment.size_bytes
        where = f"position {found.position} to {found.end}, offset {offset} or after it"
        if is_tail and known.is_live:
            yield Finding(Severity.NOTE, path, f"being written: {where}", found.position, offset)
            continue
        if is_tail and len(segment.bad) == 1:
            mend = Mend(MendKind.CUT, path, ((0, found.position),))
        else:
            mend = Mend(MendKind.SALVAGE, path, segment.keep, segment.base_offset, segment.gaps)
        is_torn = is_tail and not known.is_closed and offset >= known.recovery_point
        severity = Severity.TORN_TAIL if is_torn else Severity.DAMAGE
        yield Finding(severity, path, f"{where}: {found.reason}", found.position, offset, mend)


# -- the other files ---------------------------------------------------------------------------------------------------


def _transaction_index(path: Path, base_offset: int) -> Iterator[Finding]:
    if not path.exists():
        return
    try:
        # Reading the entries checks them.
        list(TransactionIndex(path, base_offset))
    except CorruptIndex as error:
        mend = Mend(MendKind.SET_ASIDE, path, recover_from=base_offset)
        yield Finding(Severity.DERIVED, path, str(error), offset=base_offset, mend=mend)


def _other_files(folder: Path, names: list[str]) -> Iterator[Finding]:
    for name in names:
        path = folder / name
        if name.endswith(SNAPSHOT_SUFFIX) and parse_offset(name) is not None:
            try:
                read_snapshot(path)
            except CorruptSnapshot as error:
                mend = Mend(MendKind.SET_ASIDE, path)
                yield Finding(Severity.DERIVED, path, f"no producer snapshot: {error}", mend=mend)
        elif name == LEADER_EPOCH_FILE:
            try:
                read_leader_epochs(path)
            except MalformedCheckpoint as error:
                yield Finding(Severity.DERIVED, path, f"{error}; the broker reads the epochs from the log instead")
        elif name == FAILED_SYNC_FILE:
            yield Finding(Severity.NOTE, path, "a sync of this log has failed: the next start reads it from the disk")
        elif name.endswith(GAP_SUFFIX):
            yield Finding(Severity.NOTE, path, "the offsets before it are gone, and known to be")
        elif name.endswith(QUARANTINE_SUFFIX):
            yield Finding(Severity.NOTE, path, "put aside by an earlier repair; may be removed")
