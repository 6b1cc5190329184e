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
from klamm.storage.log_files import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    parse_directory_name,
    parse_offset,
)
from klamm.storage.meta_properties import META_PROPERTIES_FILE
from klamm.storage.metadata_files import BOOTSTRAP_FILE, METADATA_FILE, parse_snapshot_name

__all__ = ["CLEANER_OFFSET_FILE", "FileKind", "data_files", "is_data_directory", "kind_of", "partition_folders"]

CLEANER_OFFSET_FILE: Final = "cleaner-offset-checkpoint"
_QUORUM_STATE_FILE: Final = "quorum-state"


class FileKind(StrEnum):
    """A kind of file."""

    segment = "segment"
    metadata_snapshot = "metadata snapshot"
    offset_index = "offset index"
    time_index = "time index"
    transaction_index = "transaction index"
    producer_snapshot = "producer snapshot"
    leader_epochs = "leader epochs"
    offsets = "offsets of partitions"
    text = "text"
    metadata_store = "metadata store"
    other = "other"


_BY_NAME: Final = {
    LEADER_EPOCH_FILE: FileKind.leader_epochs,
    RECOVERY_POINT_FILE: FileKind.offsets,
    LOG_START_OFFSET_FILE: FileKind.offsets,
    REPLICATION_OFFSET_FILE: FileKind.offsets,
    CLEANER_OFFSET_FILE: FileKind.offsets,
    PARTITION_METADATA_FILE: FileKind.text,
    META_PROPERTIES_FILE: FileKind.text,
    CLEAN_SHUTDOWN_FILE: FileKind.text,
    _QUORUM_STATE_FILE: FileKind.text,
    BOOTSTRAP_FILE: FileKind.metadata_snapshot,
    METADATA_FILE: FileKind.metadata_store,
}
_BY_SUFFIX: Final = {
    LOG_SUFFIX: FileKind.segment,
    INDEX_SUFFIX: FileKind.offset_index,
    TIME_INDEX_SUFFIX: FileKind.time_index,
    TRANSACTION_INDEX_SUFFIX: FileKind.transaction_index,
    SNAPSHOT_SUFFIX: FileKind.producer_snapshot,
}


def kind_of(path: Path) -> FileKind:
    """Returns the kind of a file, from its name alone."""
    known = _BY_NAME.get(path.name)
    if known is not None:
        return known
    if parse_snapshot_name(path.name) is not None:
        return FileKind.metadata_snapshot
    if parse_offset(path.name) is not None and path.suffix in _BY_SUFFIX and path.name.count(".") == 1:
        return _BY_SUFFIX[path.suffix]
    return FileKind.other


def data_files(directory: Path) -> list[Path]:
    """Returns the files of a known kind in a folder, sorted by name, so that the files of a segment are adjacent.

    Raises OSError.
    """
    return sorted(path for path in directory.iterdir() if path.is_file() and kind_of(path) is not FileKind.other)


def partition_folders(directory: Path) -> list[Path]:
    """Returns the partition folders of a data directory, sorted by partition. Raises OSError."""
    folders = [path for path in directory.iterdir() if path.is_dir() and parse_directory_name(path.name) is not None]
    return sorted(folders, key=lambda path: parse_directory_name(path.name) or ())


def is_data_directory(directory: Path) -> bool:
    """Returns whether the folder is a broker's data directory, as opposed to the folder of one partition."""
    return (directory / META_PROPERTIES_FILE).exists() or (directory / RECOVERY_POINT_FILE).exists()
