"""The folder that the demo writes to: its own earlier output is removed, and no other file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from klamm import KlammError

__all__ = ["prepare_output"]

MARKER: Final = ".klamm-demo"
_TEXT: Final = "`make demo` made this folder, and removes its output of an earlier run.\n"
WRITTEN: Final = frozenset({"arrivals", "broker", "handled", "klamm-pipelines", "pipeline.log"})
"""Everything that the demo, its broker and its pipeline write into the folder."""


def prepare_output(folder: Path) -> None:
    """Creates the folder, or removes what an earlier run of the demo has left in it.

    Raises KlammError for a folder that has something else, and leaves it as it is.
    """
    try:
        entries = {entry.name for entry in folder.iterdir()} if folder.exists() else set()
        others = sorted(entries - {MARKER} if MARKER not in entries else entries - {MARKER} - WRITTEN)
        if others:
            raise KlammError(
                f"{folder} has files that the demo did not write, such as {others[0]}; nothing was removed. Name an "
                "empty or a new folder with --output, or remove the files"
            )
        folder.mkdir(parents=True, exist_ok=True)
        # First, so that also the output of a run that was killed is known as the demo's.
        (folder / MARKER).write_text(_TEXT, encoding="utf-8")
        for name in sorted(entries - {MARKER}):
            _remove(folder / name)
    except OSError as error:
        raise KlammError(f"{folder} can't be used for the demo's output: {error}") from error


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()
