"""The partition folders in a data directory of Apache Kafka, and which of them klamm can use."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from klamm.protocol.record_batch import MAGIC
from klamm.protocol.types import Millis, Offset, TopicId, TopicPartition
from klamm.storage.atomic_file import sync_directory
from klamm.storage.checkpoints import read_topic_id
from klamm.storage.directory.metadata_files import METADATA_FOLDER
from klamm.storage.log.gaps import note_gap
from klamm.storage.log_files import (
    DELETED_DIRECTORY_SUFFIX,
    LOG_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    parse_directory_name,
)
from klamm.storage.recovery.log_presence import end_of
from klamm.storage.segment.file_pool import FilePool
from klamm.storage.segment.segment import Segment, SegmentSettings

__all__ = ["KafkaFolders", "find_folders", "note_gaps"]

_FUTURE_SUFFIX: Final = "-future"
_UNUSED: Final = {
    DELETED_DIRECTORY_SUFFIX: "was being deleted",
    STRAY_DIRECTORY_SUFFIX: "is of a topic that is no more",
    _FUTURE_SUFFIX: "was on its way from another directory",
}
_MAGIC_AT: Final = 16


class KafkaFolders(NamedTuple):
    """The folders of the directory."""

    partitions: dict[TopicPartition, TopicId]
    """The partitions, with the topic ids from their folders."""
    unused: list[str]
    """Descriptions of folders that klamm does not use."""
    old_format: list[Path]
    """Segments that begin with records of a format from before Kafka 0.11."""


def find_folders(directory: Path) -> KafkaFolders:
    """Lists the folders of the directory, and reads the first bytes of each segment. Raises OSError."""
    found = KafkaFolders({}, [], [])
    for folder in sorted(directory.iterdir()):
        if not folder.is_dir() or folder.name == METADATA_FOLDER:
            continue
        suffix = next((suffix for suffix in _UNUSED if folder.name.endswith(suffix)), None)
        if suffix is not None:
            found.unused.append(f"the folder {folder.name}, which {_UNUSED[suffix]}")
            continue
        topic_partition = parse_directory_name(folder.name)
        if topic_partition is not None:
            found.partitions[topic_partition] = read_topic_id(folder)
            found.old_format.extend(_old_segments(folder))
    return found


def note_gaps(folder: Path) -> None:
    """Notes the gaps that Apache Kafka's cleaner left between the segments of a partition.

    Raises Damage, OSError.
    """
    settings = SegmentSettings(FilePool(2), index_interval_bytes=0, max_index_bytes=0)
    paths = sorted(path for path in folder.iterdir() if path.suffix == LOG_SUFFIX and path.stem.isdigit())
    for path, following in pairwise(paths):
        base_offset, end_offset = Offset(int(path.stem)), Offset(int(following.stem))
        segment = Segment(folder, base_offset, settings, created_ms=Millis(0), size_bytes=path.stat().st_size)
        end = end_of(segment)
        if end < end_offset:
            note_gap(folder, end, end_offset, "Apache Kafka's cleaner has left this gap")
    sync_directory(folder)


def _old_segments(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.suffix == LOG_SUFFIX:
            with path.open("rb") as file:
                beginning = file.read(_MAGIC_AT + 1)
            if len(beginning) > _MAGIC_AT and beginning[_MAGIC_AT] < MAGIC:
                yield path
