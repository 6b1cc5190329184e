"""The folders in a data directory that Apache Kafka wrote: which of them klamm can go on with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from klamm.protocol.record_batch import MAGIC
from klamm.protocol.types import TopicId, TopicPartition
from klamm.storage.checkpoints import read_topic_id
from klamm.storage.log_files import (
    DELETED_DIRECTORY_SUFFIX,
    LOG_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    parse_directory_name,
)
from klamm.storage.metadata_log import METADATA_FOLDER

__all__ = ["KafkaFolders", "find_folders"]

_FUTURE_SUFFIX: Final = "-future"
_UNUSED: Final = {
    DELETED_DIRECTORY_SUFFIX: "was being deleted",
    STRAY_DIRECTORY_SUFFIX: "is of a topic that is no more",
    _FUTURE_SUFFIX: "was on its way from another directory",
}
_MAGIC_AT: Final = 16


class KafkaFolders(NamedTuple):
    """What is there."""

    partitions: dict[TopicPartition, TopicId]
    """With the topic id that is noted in the folder."""
    unused: list[str]
    """Folders that no partition is served from, in words."""
    old_format: list[Path]
    """Segments that begin with records of a format from before Kafka 0.11."""


def find_folders(directory: Path) -> KafkaFolders:
    """Looks through the directory, and at the first bytes of each segment. Raises OSError."""
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


def _old_segments(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.suffix == LOG_SUFFIX:
            with path.open("rb") as file:
                beginning = file.read(_MAGIC_AT + 1)
            if len(beginning) > _MAGIC_AT and beginning[_MAGIC_AT] < MAGIC:
                yield path
