"""The kinds of files in a data directory, recognized by their names."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final

from klamm.storage.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    LEADER_EPOCH_FILE,
    LOG_START_OFFSET_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_OFFSET_FILE,
)
from klamm.storage.directory.meta_properties import META_PROPERTIES_FILE
from klamm.storage.directory.metadata_files import BOOTSTRAP_FILE, METADATA_FILE, parse_snapshot_name
from klamm.storage.directory.run_record import RUN_MARK_FILE
from klamm.storage.log_files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_directory_name,
    parse_offset,
)

__all__ = ["FileKind", "data_files", "is_data_directory", "kind_of", "partition_folders"]

_CLEANER_OFFSET_FILE: Final = "cleaner-offset-checkpoint"
_QUORUM_STATE_FILE: Final = "quorum-state"


class FileKind(StrEnum):
    """A kind of file."""

    SEGMENT = "segment"
    METADATA_SNAPSHOT = "metadata snapshot"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TRANSACTION_INDEX = "transaction index"
    PRODUCER_SNAPSHOT = "producer snapshot"
    LEADER_EPOCHS = "leader epochs"
    OFFSETS = "offsets of partitions"
    TEXT = "text"
    METADATA_STORE = "metadata store"
    OTHER = "other"


_BY_NAME: Final = {
    LEADER_EPOCH_FILE: FileKind.LEADER_EPOCHS,
    RECOVERY_POINT_FILE: FileKind.OFFSETS,
    LOG_START_OFFSET_FILE: FileKind.OFFSETS,
    REPLICATION_OFFSET_FILE: FileKind.OFFSETS,
    _CLEANER_OFFSET_FILE: FileKind.OFFSETS,
    PARTITION_METADATA_FILE: FileKind.TEXT,
    META_PROPERTIES_FILE: FileKind.TEXT,
    CLEAN_SHUTDOWN_FILE: FileKind.TEXT,
    RUN_MARK_FILE: FileKind.TEXT,
    _QUORUM_STATE_FILE: FileKind.TEXT,
    BOOTSTRAP_FILE: FileKind.METADATA_SNAPSHOT,
    METADATA_FILE: FileKind.METADATA_STORE,
}
_BY_SUFFIX: Final = {
    LOG_SUFFIX: FileKind.SEGMENT,
    INDEX_SUFFIX: FileKind.OFFSET_INDEX,
    TIME_INDEX_SUFFIX: FileKind.TIME_INDEX,
    TRANSACTION_INDEX_SUFFIX: FileKind.TRANSACTION_INDEX,
    SNAPSHOT_SUFFIX: FileKind.PRODUCER_SNAPSHOT,
}


def kind_of(path: Path) -> FileKind:
    """Returns the kind of a file, from its name alone."""
    known = _BY_NAME.get(path.name)
    if known is not None:
        return known
    if parse_snapshot_name(path.name) is not None:
        return FileKind.METADATA_SNAPSHOT
    if parse_offset(path.name) is not None and path.suffix in _BY_SUFFIX and path.name.count(".") == 1:
        return _BY_SUFFIX[path.suffix]
    return FileKind.OTHER


def data_files(directory: Path) -> list[Path]:
    """Returns the files of a known kind in a folder, sorted by name, so that the files of a segment are adjacent.

    Raises OSError.
    """
    return sorted(path for path in directory.iterdir() if path.is_file() and kind_of(path) is not FileKind.OTHER)


def partition_folders(directory: Path) -> list[Path]:
    """Returns the partition folders of a data directory, sorted by partition. Raises OSError."""
    folders = [path for path in directory.iterdir() if path.is_dir() and parse_directory_name(path.name) is not None]
    return sorted(folders, key=lambda path: parse_directory_name(path.name) or ())


def is_data_directory(directory: Path) -> bool:
    """Returns whether the folder is a broker's data directory, as opposed to the folder of one partition."""
    return (directory / META_PROPERTIES_FILE).exists() or (directory / RECOVERY_POINT_FILE).exists()
