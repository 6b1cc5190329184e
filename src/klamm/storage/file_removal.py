"""Removing what a data directory has no use for any more.

The log file of a segment that retention has let go of is removed once the new log start offset is on the disk. Before,
a crash would look as if somebody had deleted the segment.
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

logger = logging.getLogger(__name__)


def remove(paths: Iterable[Path]) -> None:
    """Removes files and folders; raises nothing."""
    for path in paths:
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            logger.error("%s can't be removed: %s", path, error)


def remove_let_go(paths: Sequence[Path], note_log_starts: Callable[[], None]) -> Sequence[Path]:
    """Removes files of segments; the ones that must wait, because `note_log_starts` has raised OSError.

    Their content goes all the same: a disk may be too full to note anything.
    """
    try:
        note_log_starts()
    except OSError as error:
        logger.error(
            "the log start offsets can't be noted, deleted segments keep their names until they can: %s", error
        )
    else:
        remove(paths)
        return ()
    kept = [path for path in paths if deleted_to(path.name) is not None]
    remove(path for path in paths if path not in kept)
    try:
        for folder in {path.parent for path in kept}:
            sync_directory(folder)  # or a power failure might give an empty file its old name back
        for path in kept:
            os.truncate(path, 0)
    except OSError as error:
        logger.error("deleted segments can't be emptied: %s", error)
    return kept
