"""Lists the files in a partition's folder at start."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from klamm.protocol.types import Millis, Offset
from klamm.storage.log.gaps import COPIED_GAPS_FILE, GAP_SUFFIX
from klamm.storage.log_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    deleted_to,
    parse_offset,
)
from klamm.storage.recovery.loaded_log import LoadRequest
from klamm.storage.segment.segment import Segment

__all__ = ["PartitionFiles", "list_files"]


class PartitionFiles(NamedTuple):
    """The files, oldest first."""

    segments: list[Segment]
    without_index: set[int]
    """Base offsets of segments that lack the offset index or the time index."""
    snapshots: list[Offset]
    gaps: set[int]
    """The end offsets of the noted gaps."""
    has_copied_gaps: bool
    """Whether batches may have gaps between them, because a leader's log had them."""
    removals: list[Path]
    """Log files of deleted segments from an earlier run that must stay for now; others are removed at once."""
    deleted_to: Offset
    """The log start offset after these deletions, 0 if there are none."""
    orphans: list[Path]
    """Indexes of segments without a log file, to be removed once the log is known to be complete."""


def list_files(request: LoadRequest) -> PartitionFiles:
    """Lists the folder, and removes files that an earlier run had marked for removal. Raises OSError.

    An index without its log stays: if the log turns out to be lost and is restored from a copy, the index is needed
    again.
    """
    directory = request.directory
    logs: dict[int, os.stat_result] = {}
    indexes: dict[int, int] = {}
    index_paths: list[tuple[int, str]] = []
    snapshots: list[Offset] = []
    gaps: set[int] = set()
    has_copied_gaps = False
    let_go: list[tuple[Offset, Path]] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            if (start := deleted_to(name)) is not None and start > request.log_start_offset:
                let_go.append((start, Path(entry.path)))
                continue
            if name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, ".tmp")):
                os.unlink(entry.path)
                continue
            offset = parse_offset(name)
            if offset is None:
                has_copied_gaps |= name == COPIED_GAPS_FILE
                continue
            if name.endswith(LOG_SUFFIX):
                logs[offset] = entry.stat()
            elif name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)):
                index_paths.append((offset, entry.path))
                indexes[offset] = indexes.get(offset, 0) + (not name.endswith(TRANSACTION_INDEX_SUFFIX))
            elif name.endswith(SNAPSHOT_SUFFIX):
                snapshots.append(offset)
            elif name.endswith(GAP_SUFFIX):
                gaps.add(offset)
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
    return PartitionFiles(
        segments,
        {offset for offset in logs if indexes.get(offset) != 2},
        sorted(snapshots),
        gaps,
        has_copied_gaps,
        [path for _, path in let_go],
        max((start for start, _ in let_go), default=Offset(0)),
        [Path(path) for offset, path in index_paths if offset not in logs],
    )
