"""Which of its files a partition's folder holds at start."""

from __future__ import annotations

import os
from typing import NamedTuple

from klamm.protocol.types import Millis, Offset
from klamm.storage.loaded_log import LoadRequest
from klamm.storage.log_files import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_offset,
)
from klamm.storage.segment import Segment

__all__ = ["PartitionFiles", "list_files"]


class PartitionFiles(NamedTuple):
    """What there is, oldest first."""

    segments: list[Segment]
    without_index: set[int]
    """Base offsets of segments that lack an index, of offsets or of times."""
    snapshots: list[Offset]


def list_files(request: LoadRequest) -> PartitionFiles:
    """Looks through the folder, and removes what an earlier run meant to remove. Raises OSError."""
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
    return PartitionFiles(segments, {offset for offset in logs if indexes.get(offset) != 2}, sorted(snapshots))
