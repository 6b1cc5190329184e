"""Removes files that a data directory no longer needs.

The log file of a segment that retention has deleted is removed only when the new log start offset is on the disk.
Otherwise, after a crash, the segment would seem to be lost.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from klamm.storage.atomic_file import sync_directory
from klamm.storage.log_files import deleted_to

__all__ = ["remove", "remove_let_go"]

_logger = logging.getLogger(__name__)


def remove(paths: Iterable[Path]) -> None:
    """Removes files and folders. Never raises."""
    for path in paths:
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            _logger.error("%s can't be removed: %s", path, error)


def remove_let_go(paths: Sequence[Path], note_log_starts: Callable[[], None]) -> Sequence[Path]:
    """Removes files of deleted segments. Returns those that must wait, because `note_log_starts` has raised OSError.

    The files that must wait are emptied nevertheless, because the disk may be full.
    """
    try:
        note_log_starts()
    except OSError as error:
        _logger.error(
            "the log start offsets can't be noted, deleted segments keep their names until they can: %s", error
        )
    else:
        remove(paths)
        return ()
    kept = [path for path in paths if deleted_to(path.name) is not None]
    remove(path for path in paths if path not in kept)
    try:
        for folder in {path.parent for path in kept}:
            sync_directory(folder)  # or an empty file might get its old name back after a power failure
        for path in kept:
            os.truncate(path, 0)
    except OSError as error:
        _logger.error("deleted segments can't be emptied: %s", error)
    return kept
