"""Brings the partition folders to the workers that lead them, before a broker or the workers of a data directory start.

With another number of workers than before, the partitions are first spread over these. A crash at any point leaves a
state that the next start completes, with the same or another number of workers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Final

from klamm.errors import KlammError
from klamm.metadata.entries import apply
from klamm.metadata.image import EMPTY_IMAGE, NO_BROKER, MetadataImage
from klamm.metadata.metadata_store import Change, Commit, MetadataStore
from klamm.metadata.metadata_version import METADATA_VERSION
from klamm.metadata.version_changes import raising
from klamm.metadata.worker_spread import Homes, plan_spread
from klamm.protocol.types import BrokerId, TopicPartition
from klamm.storage.directory.file_lock import DataDirectoryInUse, FileLock
from klamm.storage.directory.folder_moves import (
    Move,
    copy_checkpoints,
    find_folders,
    find_source,
    move_folders,
    remove_directory,
)
from klamm.storage.directory.lost_metadata import refuse_lost_metadata
from klamm.storage.directory.meta_properties import META_PROPERTIES_FILE
from klamm.storage.directory.worker_directories import WORKERS_FOLDER, existing_workers, worker_directory

__all__ = ["redistribute"]

_logger = logging.getLogger(__name__)

_LOCK_PATIENCE_S: Final = 15.0
"""How long workers whose supervisor was killed may take to stop."""
_LOCK_PAUSE_S: Final = 0.05


async def redistribute(store: MetadataStore, directory: Path, workers: int, *, is_locked: bool = False) -> None:
    """Moves every partition to its worker, of workers 1 to `workers` of the data directory, and forgets other workers.

    Also raises the metadata version, because all workers start from this program. No broker may use the store.
    `is_locked`: this process already holds the lock of `directory` itself.

    Raises DataDirectoryInUse if a worker still runs, KlammError if a partition can't be moved (nothing was changed),
    MetadataLost, OSError, MetadataStoreError.
    """
    image = await _content(store)
    if not image.cluster_id:
        refuse_lost_metadata(directory)
        return  # the first start
    numbers = [BrokerId(number) for number in range(1, workers + 1)]
    directories = {number: worker_directory(directory, number) for number in {*numbers, *existing_workers(directory)}}
    async with _locked(each for each in directories.values() if not (is_locked and each == directory)):
        _refuse_missing_directories(image, directories)
        plan = plan_spread(image, numbers)
        moves = await asyncio.to_thread(_find_moves, image, plan.result, directories)
        _refuse_other_file_systems(moves, len(image.registrations))
        if moves:
            _logger.info("moving %d partitions to other folders, for --workers %d", len(moves), workers)
        await asyncio.to_thread(copy_checkpoints, moves)
        if changes := [*plan.changes, *_raising(image)]:
            await store.transact({}, changes)
        await asyncio.to_thread(move_folders, moves)
    for number, retired in directories.items():
        if number not in numbers:
            await asyncio.to_thread(remove_directory, retired)
    with contextlib.suppress(OSError):  # it is not empty
        (directory / WORKERS_FOLDER).rmdir()


async def _content(store: MetadataStore) -> MetadataImage:
    content: list[Commit] = []

    def keep_first(commit: Commit) -> None:
        if not content:
            content.append(commit)

    await store.watch(keep_first)
    return apply(EMPTY_IMAGE, content[0].revision, content[0].entries)


@contextlib.asynccontextmanager
async def _locked(directories: Iterable[Path]) -> AsyncIterator[None]:
    """Holds the locks of the directories that exist. Waits for workers that are about to stop."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _LOCK_PATIENCE_S
    with contextlib.ExitStack() as locks:
        for directory in directories:
            while directory.exists():
                try:
                    locks.callback(FileLock(directory).release)
                    break
                except DataDirectoryInUse:
                    if loop.time() > deadline:
                        raise
                    await asyncio.sleep(_LOCK_PAUSE_S)
        yield


def _raising(image: MetadataImage) -> list[Change]:
    return raising(image, METADATA_VERSION) if image.metadata_version < METADATA_VERSION else []


def _refuse_missing_directories(image: MetadataImage, directories: Mapping[BrokerId, Path]) -> None:
    """Refuses a start without the records of a worker: their topics would begin again at offset 0."""
    counts = Counter(partition.leader for topic in image.topics.values() for partition in topic.partitions)
    for broker in sorted(counts.keys() - {NO_BROKER, min(directories)}):
        path = directories.get(broker)
        if path is None:
            raise KlammError(
                f"broker {broker} has {counts[broker]} partitions, and no worker has its data. Nothing was changed: "
                f"start that broker as before, or bring its folder back"
            )
        # A worker has this file before it is registered.
        if broker in image.registrations and not (path / META_PROPERTIES_FILE).exists():
            raise KlammError(
                f"worker {broker} has {counts[broker]} partitions, but its folder {path} is missing or empty. Nothing "
                f"was changed: bring the folder back, for example mount its disk"
            )


def _find_moves(image: MetadataImage, homes: Homes, directories: Mapping[BrokerId, Path]) -> list[Move]:
    folders = {number: find_folders(path) for number, path in directories.items()}
    moves = []
    for topic in image.topics.values():
        for partition in topic.partitions:
            topic_partition = TopicPartition(topic.name, partition.index)
            home = homes[topic_partition]
            if home not in directories or len(partition.replicas) > 1:
                # Without a leader it has no home. Of several replicas each stays where it is, even if the leader's is
                # lost: another one may lack records, and the workers elect one that has all.
                continue
            holders = [number for number, found in folders.items() if topic_partition in found]
            if holders == [home] and partition.leader == home:
                continue
            # Without a folder, the checkpoints of the leader tell whether there were records.
            leader = partition.leader if partition.leader in directories else home
            source = find_source(
                topic_partition,
                topic.topic_id,
                [directories[holder] for holder in holders],
                [directories[home], directories[leader]],
            )
            source = source or directories[leader]
            if source != directories[home]:
                moves.append(Move(topic_partition, source, directories[home]))
    return moves


def _refuse_other_file_systems(moves: Iterable[Move], workers_before: int) -> None:
    for source, target in {(move.source, move.target) for move in moves}:
        present = next(each for each in (target, *target.parents) if each.exists())
        if source.exists() and source.stat().st_dev != present.stat().st_dev:
            raise KlammError(
                f"partitions can't be moved from {source} to {target}, which is on another file system. Nothing was "
                f"changed: start with --workers {workers_before} as before, or put both on one file system"
            )
