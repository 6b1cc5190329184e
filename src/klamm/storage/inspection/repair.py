"""Repairs findings. No readable record is lost, and only files that can be rebuilt are removed.

Bytes that are taken out of a log are kept in the same folder, in files that end in `.quarantined`. A damaged segment is
replaced atomically by a copy of its good batches: after a crash the folder has either the old segment or the new one.
The lost offsets leave a gap, as after compaction; consumers continue after it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from klamm.protocol.types import Offset, TopicPartition
from klamm.storage.atomic_file import FILE_MODE, FOLDER_MODE, sync_directory, sync_file, write_atomically, write_file
from klamm.storage.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    MalformedCheckpoint,
    encode_offsets,
    read_offsets,
)
from klamm.storage.directory.run_record import RunRecord
from klamm.storage.inspection.findings import Mend, MendKind, PartitionReport
from klamm.storage.log.gaps import note_gap
from klamm.storage.log_files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    QUARANTINE_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    file_name,
    parse_offset,
)

__all__ = [
    "log_start_after",
    "lower_recovery_points",
    "mend_partition",
    "raise_log_start_offsets",
    "will_be_looked_through",
]

_COPY_BYTES: Final = 1024 * 1024
_ACCEPTED: Final = {
    MendKind.ACCEPT: "as the end of the log",
    MendKind.ACCEPT_START: "as the first segment",
    MendKind.ACCEPT_GAP: "although offsets before it are missing",
}


def mend_partition(report: PartitionReport) -> list[str]:
    """Performs the repairs of the findings and returns a description of each. The data directory must be locked.

    Raises OSError.
    """
    done = []
    for mend in dict.fromkeys(finding.mend for finding in report.findings if finding.mend is not None):
        for start, end in mend.gaps:
            # Before the repair itself: a noted gap has no effect until the batches before it are gone.
            note_gap(report.folder, Offset(start), Offset(end), "`klamm log verify --repair` has accepted the gap")
        if mend.kind is MendKind.CUT:
            done.append(_cut(mend))
        elif mend.kind is MendKind.SALVAGE:
            done.append(_salvage(mend))
        elif mend.kind is MendKind.SET_ASIDE:
            done.append(f"{mend.path} was moved to {_set_aside(mend.path).name}")
        elif mend.kind is MendKind.BEGIN_AGAIN:
            done.append(_begin_again(mend))
        elif mend.kind in _ACCEPTED:
            done.append(f"{mend.path} is accepted {_ACCEPTED[mend.kind]}")
        else:
            mend.path.unlink(missing_ok=True)
            done.append(f"{mend.path} was removed; the next start builds it again")
    if done:
        sync_directory(report.folder)
    return done


def _begin_again(mend: Mend) -> str:
    assert mend.log_start_offset is not None
    mend.path.mkdir(mode=FOLDER_MODE, exist_ok=True)
    write_file(mend.path / file_name(mend.log_start_offset, LOG_SUFFIX), b"")
    sync_directory(mend.path.parent)
    return f"{mend.path} starts again, empty, at offset {mend.log_start_offset}"


def _free_name(path: Path) -> Path:
    target = path.with_name(path.name + QUARANTINE_SUFFIX)
    number = 1
    while target.exists():
        number += 1
        target = path.with_name(f"{path.name}.{number}{QUARANTINE_SUFFIX}")
    return target


def _set_aside(path: Path) -> Path:
    target = _free_name(path)
    path.rename(target)
    return target


def _remove_indexes(segment: Path) -> None:
    for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX):
        segment.with_suffix(suffix).unlink(missing_ok=True)


def _cut(mend: Mend) -> str:
    """Copies the bytes after the last good batch to another file, and cuts them off."""
    size = mend.path.stat().st_size
    ((_, position),) = mend.keep
    target = _free_name(mend.path.with_name(f"{mend.path.name}.{position}"))
    _copy(mend.path, target, ((position, size),))
    sync_directory(mend.path.parent)
    os.truncate(mend.path, position)
    sync_file(mend.path)
    _remove_indexes(mend.path)
    return f"{mend.path} was cut at position {position}; {size - position} bytes are in {target.name}"


def _salvage(mend: Mend) -> str:
    path = mend.path
    target = _free_name(path)
    # The next start removes files with this suffix, if the repair is interrupted.
    temporary = path.with_name(path.name + ".tmp")
    _copy(path, temporary, mend.keep)
    try:
        os.link(path, target)
    except OSError:  # the file system has no hard links
        shutil.copy2(path, target)
        sync_file(target)
    sync_directory(path.parent)
    os.replace(temporary, path)
    _remove_indexes(path)
    kept = sum(end - start for start, end in mend.keep)
    return f"{path} was moved to {target.name}; {kept} bytes of good batches are in its place"


def _for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags, FILE_MODE)


def _copy(source: Path, target: Path, ranges: Iterable[tuple[int, int]]) -> None:
    with source.open("rb") as reader, open(target, "wb", opener=_for_its_owner) as writer:
        for start, end in ranges:
            reader.seek(start)
            left = end - start
            while left:
                chunk = reader.read(min(left, _COPY_BYTES))
                if not chunk:
                    raise OSError(f"{source} ended while it was copied")
                writer.write(chunk)
                left -= len(chunk)
        writer.flush()
        os.fsync(writer.fileno())


def will_be_looked_through(report: PartitionReport) -> int | None:
    """Returns the offset from which the next start must check a repaired log, None if nothing was repaired."""
    mends = [finding.mend for finding in report.findings if finding.mend is not None]
    if not mends:
        return None
    return min([report.log_end_offset, *(mend.recover_from for mend in mends if mend.recover_from is not None)])


def log_start_after(report: PartitionReport) -> int | None:
    """Returns the log start offset of a repaired log, None if it has not changed."""
    starts = (finding.mend.log_start_offset for finding in report.findings if finding.mend is not None)
    return max((start for start in starts if start is not None), default=None)


def raise_log_start_offsets(directory: Path, offsets: dict[TopicPartition, int]) -> None:
    """Raises the log start offsets of partitions that have lost their first segments. Raises OSError."""
    path = directory / LOG_START_OFFSET_FILE
    try:
        starts = read_offsets(path)
    except MalformedCheckpoint:
        starts = {}
    for topic_partition, offset in offsets.items():
        starts[topic_partition] = Offset(max(starts.get(topic_partition, 0), offset))
    write_atomically(path, encode_offsets(starts))
    sync_directory(directory)


def lower_recovery_points(directory: Path, offsets: dict[TopicPartition, int]) -> None:
    """Lowers the recovery points of partitions to these offsets, and removes producer snapshots above them, the mark of
    a clean shutdown and that of the latest run.

    The next start then checks the repaired logs, and does not report the lost records as missing. Raises OSError.
    """
    path = directory / RECOVERY_POINT_FILE
    try:
        points = read_offsets(path)
    except MalformedCheckpoint:
        points = {}  # the next start then checks everything
    for topic_partition, offset in offsets.items():
        folder = directory / str(topic_partition)
        for snapshot in folder.glob(f"*{SNAPSHOT_SUFFIX}"):
            if (parse_offset(snapshot.name) or 0) > offset:
                snapshot.unlink()
        sync_directory(folder)
        if topic_partition in points:
            points[topic_partition] = Offset(min(points[topic_partition], offset))
    (directory / CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)
    RunRecord(directory).distrust()
    write_atomically(path, encode_offsets(points))
    sync_directory(directory)
