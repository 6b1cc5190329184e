"""Moves partition folders between the data directories of workers, by renaming them, while no broker runs.

The order survives a crash at any point. First the checkpoints of the target get the entries of the partitions, then the
metadata are changed (by the caller), then the folders are renamed. Each step can be repeated, and a folder is always
found, because all directories are searched for it.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from klamm.protocol.types import ZERO_TOPIC_ID, Offset, TopicId, TopicPartition
from klamm.storage.atomic_file import FOLDER_MODE, sync_directory, write_atomically
from klamm.storage.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_OFFSET_FILE,
    MalformedCheckpoint,
    encode_offsets,
    read_offsets,
    read_topic_id,
    write_clean_shutdown_mark,
)
from klamm.storage.cleaner.checkpoint import CLEANER_OFFSET_FILE
from klamm.storage.directory.file_lock import LOCK_FILE
from klamm.storage.directory.meta_properties import META_PROPERTIES_FILE
from klamm.storage.directory.run_record import RUN_MARK_FILE, RunRecord
from klamm.storage.log_files import STRAY_DIRECTORY_SUFFIX, parse_directory_name, retired_directory_name

__all__ = ["Move", "copy_checkpoints", "find_folders", "find_source", "move_folders", "remove_directory"]

_logger = logging.getLogger(__name__)

_CHECKPOINTS: Final = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, REPLICATION_OFFSET_FILE, CLEANER_OFFSET_FILE)
_NO_BROKER_EPOCH: Final = -1


class Move(NamedTuple):
    """A partition that changes its data directory. It may have no folder: then only its checkpoint entries move."""

    topic_partition: TopicPartition
    source: Path
    target: Path


def find_folders(directory: Path) -> set[TopicPartition]:
    """Returns the partitions with a folder in a data directory, none if the directory is missing. Raises OSError."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return set()
    return {topic_partition for name in names if (topic_partition := parse_directory_name(name)) is not None}


def find_source(
    topic_partition: TopicPartition, topic_id: TopicId, candidates: Iterable[Path], preferred: Sequence[Path]
) -> Path | None:
    """Returns the one of the data directories `candidates` that has the partition's folder, None if none has.

    A folder of another topic with the same name does not count. A power failure may have taken the file with the topic
    id, so a folder without a topic id counts if there is no better one. Raises OSError.
    """
    found: list[tuple[bool, int, Path]] = []
    for directory in candidates:
        present = read_topic_id(directory / str(topic_partition))
        if present in (topic_id, ZERO_TOPIC_ID):
            rank = preferred.index(directory) if directory in preferred else len(preferred)
            found.append((present != topic_id, rank, directory))
    return min(found)[2] if found else None


def copy_checkpoints(moves: Sequence[Move]) -> None:
    """Gives the targets what the checkpoints of the sources tell about the partitions. Raises OSError."""
    for target, arriving in _by(_target, moves).items():
        had_folders = bool(find_folders(target))
        target.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        for name in _CHECKPOINTS:
            offsets = _read(target / name)
            before = offsets.copy()
            for source, some in _by(_source, arriving).items():
                found = _read(source / name)
                for move in some:
                    offsets.pop(move.topic_partition, None)
                    if move.topic_partition in found:
                        offsets[move.topic_partition] = found[move.topic_partition]
            if offsets != before:
                write_atomically(target / name, encode_offsets(offsets))
        if not all((move.source / CLEAN_SHUTDOWN_FILE).exists() for move in arriving):
            # The mark would keep the next start from looking through the logs of a directory that was not closed.
            (target / CLEAN_SHUTDOWN_FILE).unlink(missing_ok=True)
            RunRecord(target).distrust()
        elif not had_folders:
            write_clean_shutdown_mark(target, _NO_BROKER_EPOCH)
        sync_directory(target)
        sync_directory(target.parent)


def move_folders(moves: Sequence[Move]) -> None:
    """Renames the folders, makes the names durable, and removes the partitions from the checkpoints of the sources.

    Raises OSError.
    """
    for topic_partition, source, target in moves:
        old, new = source / str(topic_partition), target / str(topic_partition)
        if not old.exists():
            continue
        if new.exists():
            aside = target / retired_directory_name(topic_partition, STRAY_DIRECTORY_SUFFIX)
            new.rename(aside)
            _logger.warning("%s is not of the topic of that name: it was renamed to %s", new, aside)
        old.rename(new)
    for directory in {move.target for move in moves} | {move.source for move in moves if move.source.exists()}:
        sync_directory(directory)
    for source, leaving in _by(_source, moves).items():
        _forget(source, {move.topic_partition for move in leaving})


def _forget(source: Path, gone: Collection[TopicPartition]) -> None:
    """Removes entries: the directory may get another topic of the same name, which must not seem to miss records."""
    for name in _CHECKPOINTS:
        offsets = _read(source / name)
        kept = {each: offset for each, offset in offsets.items() if each not in gone}
        if kept != offsets:
            write_atomically(source / name, encode_offsets(kept))


def remove_directory(directory: Path) -> None:
    """Removes the data directory of a worker that is not started any more, if it has nothing but small files.

    Keeps it if it has anything else, for example set-aside partitions, and then removes only its checkpoints.
    """
    with contextlib.suppress(OSError):
        for name in (*_CHECKPOINTS, CLEAN_SHUTDOWN_FILE, RUN_MARK_FILE):
            (directory / name).unlink(missing_ok=True)
        if set(os.listdir(directory)) <= {LOCK_FILE, META_PROPERTIES_FILE}:
            (directory / META_PROPERTIES_FILE).unlink(missing_ok=True)
            (directory / LOCK_FILE).unlink(missing_ok=True)
            directory.rmdir()


def _source(move: Move) -> Path:
    return move.source


def _target(move: Move) -> Path:
    return move.target


def _by(directory_of: Callable[[Move], Path], moves: Iterable[Move]) -> Mapping[Path, list[Move]]:
    grouped: defaultdict[Path, list[Move]] = defaultdict(list)
    for move in moves:
        grouped[directory_of(move)].append(move)
    return grouped


def _read(path: Path) -> dict[TopicPartition, Offset]:
    try:
        return read_offsets(path)
    except MalformedCheckpoint as error:
        # Without the checkpoint, recovery reads more of the log, with the same result.
        _logger.warning("%s; it is treated as empty", error)
        return {}
