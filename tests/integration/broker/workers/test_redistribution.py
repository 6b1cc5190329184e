"""Partition folders that move between the directories of workers: which move, and what a kill at any moment leaves."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from klamm.broker.workers.redistribution import redistribute
from klamm.errors import KlammError
from klamm.metadata.entries import (
    apply,
    broker_key,
    put_broker,
    put_cluster,
    put_features,
    put_partition,
    put_topic,
)
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicImage
from klamm.metadata.metadata_store import Change, Commit
from klamm.metadata.metadata_version import METADATA_VERSION
from klamm.metadata.sqlite_store import SqliteStore
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset, PartitionIndex, TopicId, TopicPartition
from klamm.storage.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    REPLICATION_OFFSET_FILE,
    encode_offsets,
    read_offsets,
    write_clean_shutdown_mark,
    write_topic_id,
)
from klamm.storage.cleaner.checkpoint import CLEANER_OFFSET_FILE
from klamm.storage.directory.file_lock import FileLock
from klamm.storage.directory.lost_metadata import MetadataLost
from klamm.storage.directory.meta_properties import MetaProperties
from klamm.storage.directory.run_record import RunRecord
from klamm.storage.directory.worker_directories import worker_directory

CLUSTER = "a-cluster"
CHECKPOINTS = (RECOVERY_POINT_FILE, LOG_START_OFFSET_FILE, REPLICATION_OFFSET_FILE, CLEANER_OFFSET_FILE)
TOPICS = {"a": TopicId(b"a" * 16), "b": TopicId(b"b" * 16)}

# Redistributes a copy of the directory for each change of a file's name, and is killed just before that change.
KILLED_AT_EACH_CHANGE = """
import asyncio, os, shutil, signal, sys
from pathlib import Path
from klamm.broker.workers.redistribution import redistribute
from klamm.metadata.sqlite_store import SqliteStore
import klamm.metadata.entries, uuid

def die_at(number):
    left = [number]
    def hook(event, arguments):
        if event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir"):
            left[0] -= 1
            if not left[0]:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

async def move(directory, workers):
    store = await SqliteStore.open(directory / "metadata.sqlite")
    await redistribute(store, directory, workers)
    await store.close()

source, workers, number = Path(sys.argv[1]), int(sys.argv[2]), 0
while True:
    number += 1
    directory = source.with_name(f"killed-{number}")
    shutil.copytree(source, directory)
    child = os.fork()
    if not child:
        os.fsync = abs  # a kill loses nothing that is written, and this is slow
        die_at(number)
        asyncio.run(move(directory, workers))
        os._exit(0)
    if not os.waitpid(child, 0)[1]:
        break
print(number)
"""


class _Data(NamedTuple):
    """A data directory with the partitions of topics. Each has a file, and offsets in the checkpoints."""

    path: Path

    def worker(self, number: int) -> Path:
        return worker_directory(self.path, number)

    def make(self, leaders: Mapping[str, Sequence[int]], workers: int) -> None:
        """Makes the directories of `workers` workers that were stopped cleanly."""
        changes = [put_cluster(CLUSTER)]
        for number in range(1, workers + 1):
            directory = self.worker(number)
            directory.mkdir(parents=True, exist_ok=True)
            write_clean_shutdown_mark(directory, 1)
            MetaProperties.ensure(None, directory, cluster_id=CLUSTER, node_id=number)
            changes.append(put_broker(BrokerId(number), {"PLAINTEXT": ("localhost", 9092)}, None))
            mine = [
                _tp(topic, index) for topic in leaders for index, each in enumerate(leaders[topic]) if each == number
            ]
            for name in CHECKPOINTS:
                (directory / name).write_bytes(encode_offsets({each: _offset(name, each) for each in mine}))
            for each in mine:
                self._make_folder(directory / str(each), TOPICS[each.topic])
        for topic, of_topic in leaders.items():
            partitions = tuple(
                PartitionImage(
                    PartitionIndex(index), BrokerId(each), LeaderEpoch(1), (BrokerId(each),), (BrokerId(each),)
                )
                for index, each in enumerate(of_topic)
            )
            changes.append(put_topic(TopicImage(topic, TOPICS[topic], partitions)))
            changes += [put_partition(TOPICS[topic], partition) for partition in partitions]
        self.change(changes)

    @staticmethod
    def _make_folder(folder: Path, topic_id: TopicId) -> None:
        folder.mkdir()
        write_topic_id(folder, topic_id)
        (folder / "records").write_text(folder.name)

    def change(self, changes: Sequence[Change]) -> None:
        async def write() -> None:
            store = await SqliteStore.open(self.path / "metadata.sqlite")
            await store.transact({}, changes)
            await store.close()

        asyncio.run(write())

    def redistribute(self, workers: int) -> MetadataImage:
        """Redistributes the partitions, and returns the metadata after it."""

        async def move() -> MetadataImage:
            store = await SqliteStore.open(self.path / "metadata.sqlite")
            try:
                await redistribute(store, self.path, workers)
                commits: list[Commit] = []
                await store.watch(commits.append)
            finally:
                await store.close()
            return apply(EMPTY_IMAGE, commits[0].revision, commits[0].entries)

        return asyncio.run(move())

    def check(self, image: MetadataImage) -> None:
        """Asserts that each partition has its records and its checkpoints with its leader, and nowhere else."""
        for topic in image.topics.values():
            for partition in topic.partitions:
                each = _tp(topic.name, partition.index)
                assert [path.parent for path in self.path.glob(f"**/{each}")] == [self.worker(partition.leader)]
                assert (self.worker(partition.leader) / str(each) / "records").read_text() == str(each)
                for name in CHECKPOINTS:
                    assert read_offsets(self.worker(partition.leader) / name)[each] == _offset(name, each)


def _tp(topic: str, index: int) -> TopicPartition:
    return TopicPartition(topic, PartitionIndex(index))


def _offset(name: str, each: TopicPartition) -> Offset:
    return Offset(1 + 100 * CHECKPOINTS.index(name) + each.partition)


@pytest.fixture
def data(tmp_path: Path) -> _Data:
    """Returns a data directory in which nothing is yet."""
    (tmp_path / "data").mkdir()
    return _Data(tmp_path / "data")


@pytest.mark.parametrize(("before", "after"), [([1, 1, 1], 3), ([1, 2, 3], 2)])
def test_a_kill_at_any_change_is_completed_by_the_next_start(
    data: _Data, before: list[int], after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A redistribution that is killed before a file's name changes, whichever it is, is completed by the next start
    with the same or another number of workers: no partition is lost, doubled, or without its checkpoints."""
    monkeypatch.setattr("os.fsync", abs)
    data.make({"a": before, "b": before[:2]}, max(before))
    done = subprocess.run(
        [sys.executable, "-c", KILLED_AT_EACH_CHANGE, str(data.path), str(after)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert not done.returncode, done.stderr
    kills = int(done.stdout)
    assert kills > 10
    for number in range(1, kills + 1):
        killed = _Data(data.path.with_name(f"killed-{number}"))
        killed.check(killed.redistribute((after, 1, 2, 4)[number % 4]))


def test_one_worker_gets_everything_back(data: _Data) -> None:
    """With one worker the directories of the others are gone, with their registrations."""
    data.make({"a": [1, 2, 3]}, 3)
    image = data.redistribute(1)
    data.check(image)
    assert set(image.registrations) == {1}
    assert not (data.path / "workers").exists()


def test_a_directory_with_other_files_is_kept(data: _Data) -> None:
    """What a worker has set aside stays, without checkpoints that a later worker would take for its own."""
    data.make({"a": [1, 2]}, 2)
    (data.worker(2) / "old-0.1f-stray").mkdir()
    data.redistribute(1)
    assert {path.name for path in data.worker(2).iterdir()} == {"old-0.1f-stray", ".lock", "meta.properties"}


def test_a_folder_of_an_older_topic_is_set_aside(data: _Data) -> None:
    """A partition does not take the place of another topic's records, and is not replaced by them."""
    data.make({"a": [2]}, 2)
    data._make_folder(data.path / "a-0", TopicId(b"o" * 16))
    data.check(data.redistribute(1))
    (stray,) = data.path.glob("a-0.*-stray")
    assert (stray / "records").exists()


def test_an_unclean_stop_is_not_forgotten(data: _Data) -> None:
    """A directory that gets logs of a worker which was killed is looked through by the next start. It holds more than
    its own run has written."""
    data.make({"a": [1, 2]}, 2)
    (data.worker(2) / CLEAN_SHUTDOWN_FILE).unlink()
    RunRecord(data.path).begin("run", kept="", recorded="")
    data.redistribute(1)
    assert not (data.path / CLEAN_SHUTDOWN_FILE).exists()
    assert RunRecord(data.path).kept_runs(None) == frozenset()


def test_a_new_worker_trusts_logs_that_were_closed_cleanly(data: _Data) -> None:
    """A worker whose first logs are moved to it need not look through them."""
    data.make({"a": [1, 1]}, 1)
    data.redistribute(2)
    assert (data.worker(2) / CLEAN_SHUTDOWN_FILE).exists()


def test_a_lost_folder_is_still_known_as_lost(data: _Data) -> None:
    """If the folder of a moved partition is gone, its new worker marks it offline instead of beginning at offset 0."""
    data.make({"a": [1, 1]}, 1)
    shutil.rmtree(data.path / "a-1")
    image = data.redistribute(2)
    assert [partition.leader for partition in image.topics["a"].partitions] == [1, 2]
    assert read_offsets(data.worker(2) / RECOVERY_POINT_FILE)[_tp("a", 1)] > 0


def test_the_records_of_a_missing_directory_are_not_replaced(data: _Data) -> None:
    """A start without the directory of a worker, for example without its disk, is refused and changes nothing."""
    data.make({"a": [1, 2]}, 2)
    shutil.rmtree(data.worker(2))
    data.worker(2).mkdir()
    for workers in (1, 2):
        with pytest.raises(KlammError, match=r"worker 2 has 1 partitions, but its folder .* is missing or empty"):
            data.redistribute(workers)
    data.change([Change(broker_key(BrokerId(2)), None)])
    shutil.rmtree(data.worker(2))
    with pytest.raises(KlammError, match="broker 2 has 1 partitions, and no worker has its data"):
        data.redistribute(1)


def _replicate(data: _Data, replicas: Sequence[int]) -> None:
    """Gives a-0, led by worker 1, these replicas, whose folders exist."""
    brokers = tuple(map(BrokerId, replicas))
    wide = PartitionImage(PartitionIndex(0), BrokerId(1), LeaderEpoch(1), brokers, brokers)
    data.change([put_partition(TOPICS["a"], wide)])
    for number in replicas:
        if not (data.worker(number) / "a-0").exists():
            data._make_folder(data.worker(number) / "a-0", TOPICS["a"])


@pytest.mark.parametrize("workers", [1, 3])
def test_several_replicas_keep_the_number_of_workers(data: _Data, workers: int) -> None:
    """A start with another number of workers than the replicas have is refused, and changes no file."""
    data.make({"a": [1], "b": [1, 2]}, 2)
    _replicate(data, [1, 2])
    files = [path for path in data.path.rglob("*") if path.is_file() and path.name != "metadata.sqlite"]
    before = {path: path.stat().st_mtime_ns for path in files}
    with pytest.raises(KlammError, match="--workers 2 as before"):
        data.redistribute(workers)
    assert {path: path.stat().st_mtime_ns for path in files} == before
    assert set(data.redistribute(2).registrations) == {1, 2}


def test_a_lost_replica_is_not_replaced_by_another_one(data: _Data) -> None:
    """If the folder of the leader's replica is gone, the other replica stays where it is: it may lack records, and the
    workers decide whether it can lead."""
    data.make({"a": [1]}, 2)
    _replicate(data, [1, 2])
    shutil.rmtree(data.path / "a-0")
    data.redistribute(2)
    assert not (data.path / "a-0").exists()
    assert (data.worker(2) / "a-0" / "records").exists()


@pytest.mark.parametrize("version", [0, 1])
def test_the_metadata_version_is_raised(data: _Data, version: int) -> None:
    """A start of workers raises the metadata version of an earlier klamm: no other program uses the store meanwhile."""
    data.make({"a": [1, 2]}, 2)
    data.change([put_features(version) if version else Change("features", None)])
    for workers in (2, 1):
        image = data.redistribute(workers)
        data.check(image)
        assert image.metadata_version == METADATA_VERSION


def test_lost_metadata_are_not_begun_again(data: _Data) -> None:
    """Without the content of the store, the partitions of all workers are counted, and no file is changed."""
    data.make({"a": [2, 2]}, 2)
    (data.path / "metadata.sqlite").unlink()
    data.change([])

    def files() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in data.path.rglob("*") if path.name != "metadata.sqlite"}

    before = files()
    for workers in (1, 2):
        with pytest.raises(MetadataLost, match=r"holds 2 partition\(s\)"):
            data.redistribute(workers)
    assert files() == before


def test_another_file_system_is_refused(data: _Data) -> None:
    """Folders are renamed, not copied: a start that would have to copy says so, and changes nothing."""
    data.make({"a": [1, 2]}, 2)
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == data.path.stat().st_dev:
        pytest.skip("there is no second file system")
    elsewhere = other / f"klamm-{os.getpid()}"
    shutil.move(data.worker(2), elsewhere)
    data.worker(2).symlink_to(elsewhere)
    try:
        with pytest.raises(KlammError, match=r"which is on another file system.*--workers 2 as before"):
            data.redistribute(1)
        data.redistribute(2)
        assert (elsewhere / "a-1" / "records").exists()
    finally:
        shutil.rmtree(elsewhere)


def test_a_worker_that_still_runs_is_waited_for(data: _Data, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders do not move while a worker of a killed supervisor has them open: the start waits, and then gives up."""
    data.make({"a": [1, 2]}, 2)
    monkeypatch.setattr("klamm.broker.workers.redistribution._LOCK_PATIENCE_S", 0.0)
    lock = FileLock(data.worker(2))
    with pytest.raises(KlammError, match="in use by a broker: stop it first"):
        data.redistribute(1)
    lock.release()
    data.check(data.redistribute(1))
