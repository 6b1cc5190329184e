"""The data directories of several workers: worker 1 has the data directory itself, the others have folders in it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from klamm.protocol.types import BrokerId
from klamm.storage.directory.metadata_files import METADATA_FILE

__all__ = ["WORKERS_FOLDER", "existing_workers", "metadata_file", "worker_directory"]

WORKERS_FOLDER: Final = "workers"
_FIRST: Final = 1


def worker_directory(directory: Path, worker: int) -> Path:
    """Returns the data directory of a worker."""
    return directory if worker == _FIRST else directory / WORKERS_FOLDER / str(worker)


def existing_workers(directory: Path) -> list[BrokerId]:
    """Returns the workers that have a data directory. Raises OSError."""
    folder = directory / WORKERS_FOLDER
    names = [path.name for path in folder.iterdir() if path.is_dir()] if folder.is_dir() else []
    others = [BrokerId(int(name)) for name in names if name.isascii() and name.isdecimal() and str(int(name)) == name]
    return [BrokerId(_FIRST), *sorted(other for other in others if other > _FIRST)]


def metadata_file(directory: Path) -> Path:
    """Returns the path of the metadata of a data directory. Workers have theirs in the directory of worker 1."""
    shared = directory.parent.parent / METADATA_FILE
    return shared if directory.parent.name == WORKERS_FOLDER and shared.exists() else directory / METADATA_FILE
