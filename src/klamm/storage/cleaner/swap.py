"""Replaces segments by a cleaned segment. After a crash, either the old segments or the new one are there.

1. The cleaner writes files with the suffix `.cleaned` and syncs them. After a crash they are removed.
2. It renames them to `.swap`, the log first, and syncs the folder. While one `.cleaned` file of a segment is left, the
   swap has not begun, and a start removes both kinds. Afterwards a start finishes the swap.
3. The old segments get `.deleted` names, as all files that are to be removed.
4. The suffix `.swap` is removed.

A start finds the replaced segments from the cleaned log itself: those whose base offsets lie between its base offset
and the end of its last batch. Cleaning therefore always keeps the last batch (see `core/log/compaction_batches.py`).

Source: `LocalLog.replaceSegments`, `LogLoader.load` and `removeTempFilesAndCollectSwapFiles` of Apache Kafka 4.3.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from errno import EIO
from pathlib import Path

from klamm.protocol.types import Offset
from klamm.storage.atomic_file import sync_directory
from klamm.storage.log.gaps import GAP_SUFFIX
from klamm.storage.log_files import CLEANED_SUFFIX, LOG_SUFFIX, SNAPSHOT_SUFFIX, SWAP_SUFFIX, parse_offset
from klamm.storage.segment.batch_scan import BadBatch, scan_bounds

__all__ = ["SwapFiles", "finish_swaps", "offer_swap"]

_logger = logging.getLogger(__name__)


class SwapFiles:
    """The files of a cleaned segment, complete and synced, with the suffix `.swap`."""

    __slots__ = ("base_offset", "paths", "size_bytes")

    def __init__(self, base_offset: Offset, size_bytes: int, paths: Sequence[Path]) -> None:
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.paths = paths

    def take_place(self) -> None:
        """Performs step 4, after the old segments' files are gone. Raises OSError."""
        for path in self.paths:
            path.rename(path.with_suffix(""))

    def remove(self) -> None:
        """Cancels the swap.

        The log is removed last, so that a crash in between does not leave indexes without their log.
        """
        for path in reversed(self.paths):
            with suppress(OSError):
                path.unlink(missing_ok=True)


def offer_swap(base_offset: Offset, size_bytes: int, cleaned: Sequence[Path]) -> SwapFiles:
    """Performs step 2 for the synced `.cleaned` files of a segment, the log first. Raises OSError."""
    directory = cleaned[0].parent
    sync_directory(directory)
    paths = []
    for path in cleaned:
        target = path.with_suffix(SWAP_SUFFIX)
        try:
            path.rename(target)
        except FileNotFoundError:
            if path is cleaned[0]:
                raise
            continue  # without aborted transactions there is no transaction index
        paths.append(target)
    sync_directory(directory)
    return SwapFiles(base_offset, size_bytes, paths)


def finish_swaps(directory: Path) -> None:
    """Cleans up a folder in which a cleaner was interrupted: finishes swaps that had begun and undoes the others.

    Raises OSError, also if a log to swap in is damaged: then it is unknown which segments it replaces.
    """
    names = os.listdir(directory)
    cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    if not cleaned and not swaps:
        return
    unfinished = {parse_offset(name) for name in cleaned}
    begun: set[Offset] = set()
    for name in swaps:
        offset = parse_offset(name)
        if offset is None or offset in unfinished:
            (directory / name).unlink(missing_ok=True)
        else:
            begun.add(offset)
    if cleaned:
        # The `.swap` files are gone from the disk before the first `.cleaned` file goes: a `.cleaned` file shows that
        # the swap had not begun.
        sync_directory(directory)
        for name in cleaned:
            (directory / name).unlink(missing_ok=True)
    for offset in sorted(begun):
        _finish(directory, offset, [name for name in swaps if parse_offset(name) == offset])
    sync_directory(directory)


def _finish(directory: Path, base_offset: Offset, swaps: list[str]) -> None:
    log = directory / next((name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)), "")
    if log != directory:
        try:
            end_offset = _end_of(log, base_offset)
        except BadBatch as error:
            raise OSError(EIO, f"{log} is damaged at position {error.position}: {error}") from error
        _logger.info("%s replaces the segments up to offset %d, which an interrupted cleaner left", log, end_offset)
        _remove_replaced(directory, base_offset, end_offset)
    for name in sorted(swaps):
        path = directory / name
        path.rename(path.with_suffix(""))


def _remove_replaced(directory: Path, base_offset: Offset, end_offset: Offset) -> None:
    for name in os.listdir(directory):
        offset = parse_offset(name)
        if offset is None or name.endswith(SWAP_SUFFIX) or not base_offset <= offset < max(end_offset, base_offset + 1):
            continue
        # The producer state at the beginning of the segment is unchanged, and a gap before the segment still exists.
        if not (name.endswith((SNAPSHOT_SUFFIX, GAP_SUFFIX)) and offset == base_offset):
            (directory / name).unlink()


def _end_of(log: Path, base_offset: Offset) -> Offset:
    end_offset = base_offset
    descriptor = os.open(log, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for batch in scan_bounds(descriptor, 0, os.fstat(descriptor).st_size):
            end_offset = Offset(batch.last_offset + 1)
    finally:
        os.close(descriptor)
    return end_offset
