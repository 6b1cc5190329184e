"""Gaps in a log that are not damage: offsets that are known to be gone.

Compaction leaves gaps within segments; klamm's cleaner leaves none between segments. If other offsets are missing and
it was decided that the log continues without them, a small file in the partition's folder notes the gap. Its name
contains the offset at which the log continues; its content is for people.

A follower copies the gaps of a leader whose log was cleaned, perhaps before the topic's `cleanup.policy` changed. One
file notes that batches of the log may have gaps between them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from klamm.protocol.types import Offset
from klamm.storage.atomic_file import sync_directory, write_atomically
from klamm.storage.log_files import file_name

__all__ = ["COPIED_GAPS_FILE", "GAP_SUFFIX", "note_copied_gaps", "note_gap"]

GAP_SUFFIX: Final = ".gap"
COPIED_GAPS_FILE: Final = "copied-gaps"


def note_gap(directory: Path, start: Offset, end: Offset, reason: str) -> Path:
    """Notes that the offsets from `start` up to but without `end` are not in the log. Returns the file. Raises OSError.

    The caller syncs the folder.
    """
    path = directory / file_name(end, GAP_SUFFIX)
    write_atomically(path, f"the offsets {start} to {end - 1} are not in the log: {reason}\n".encode())
    return path


def note_copied_gaps(directory: Path) -> None:
    """Notes durably that batches of the log may have gaps between them, which a follower copied. Raises OSError."""
    path = directory / COPIED_GAPS_FILE
    if not path.exists():
        write_atomically(path, b"the leader has removed batches of this log before they were copied here\n")
        sync_directory(directory)
