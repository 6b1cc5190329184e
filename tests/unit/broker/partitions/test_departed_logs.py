"""Tests when a broker deletes the log of a partition of which it is no replica any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.log_folder import NOW_MS, ORDERS, TOPIC_ID, LogFolder, batch, read_all

from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.config.topic_config import TopicConfig
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicImage
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId
from klamm.storage.checkpoints import RECOVERY_POINT_FILE, read_offsets
from klamm.storage.directory.offset_checkpoints import CheckpointContents, OffsetCheckpoints
from klamm.storage.log.log import Log
from klamm.storage.log_files import DELETED_DIRECTORY_SUFFIX

HERE, ELSEWHERE = BrokerId(1), BrokerId(2)
OTHER_ID = TopicId(bytes(reversed(TOPIC_ID)))


class Registry:
    """A registry of broker 1 over a real data directory, which leads `orders-0` with a record."""

    def __init__(self, path: Path) -> None:
        self.folder = LogFolder(path)
        self.config = TopicConfig()
        self.registry = PartitionRegistry(HERE, self.folder.directory, lambda topic: self.config)
        self.image = EMPTY_IMAGE

    def begin(self) -> Log:
        """Leads the partition, writes a record and a checkpoint, and returns the log."""
        self.show((1,))
        self.registry.get("orders", 0).append(batch(), NOW_MS)
        log = self.log
        assert log is not None
        flush = log.durability.begin_flush(NOW_MS)
        assert flush is not None
        flush.run()
        self.folder.directory.checkpoint().result()
        assert self.noted == 1
        return log

    def show(self, replicas: tuple[int, ...], *, topic_id: TopicId = TOPIC_ID) -> None:
        """Shows the registry an image with these replicas; the first one leads."""
        members = tuple(map(BrokerId, replicas))
        partition = PartitionImage(PartitionIndex(0), members[0], LeaderEpoch(0), members, members)
        topic = TopicImage("orders", topic_id, (partition,))
        before, self.image = self.image, MetadataImage(topics={"orders": topic}, topics_by_id={topic_id: topic})
        self.registry.apply(before, self.image)
        self.registry.finish()

    async def go_on(self) -> None:
        """Waits until the checkpoints are written and all steps are done."""
        self.folder.directory.wait_for_background()
        for _ in range(3):
            await asyncio.sleep(0)
        self.registry.finish()

    @property
    def log(self) -> Log | None:
        return self.folder.directory.get(ORDERS)

    @property
    def noted(self) -> int | None:
        """The recovery point of the partition in the checkpoint on the disk."""
        return read_offsets(self.folder.path / RECOVERY_POINT_FILE).get(ORDERS)

    @property
    def deleted(self) -> list[Path]:
        return list(self.folder.path.glob(f"*{DELETED_DIRECTORY_SUFFIX}"))


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    made = Registry(tmp_path)
    yield made
    made.folder.close()


def in_loop(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_log_of_a_moved_partition_is_deleted(registry: Registry) -> None:
    """The checkpoints forget the partition, then the folder is renamed, and removed after file.delete.delay.ms."""

    async def scenario() -> None:
        log = registry.begin()
        registry.show((2,))
        assert registry.log is log
        await registry.go_on()
        assert registry.log is None
        assert registry.noted is None
        assert log.is_offline
        assert len(registry.deleted) == 1
        assert not (registry.folder.path / "orders-0").exists()
        for delay_ms in (log.config.file_delete_delay_ms - 1, log.config.file_delete_delay_ms):
            assert registry.deleted
            registry.folder.directory.housekeep(type(NOW_MS)(NOW_MS + delay_ms))
            registry.folder.directory.wait_for_background()
        assert not registry.deleted

    in_loop(scenario)


def test_deletion_that_fails_unexpectedly_is_begun_again(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of any kind ends one attempt. Otherwise the broker would delete no log of a moved partition any more."""

    async def scenario() -> None:
        registry.begin()
        with monkeypatch.context() as patch:
            patch.setattr(OffsetCheckpoints, "gather_in_steps", _fail)
            with suppress(RuntimeError):  # On a busy machine the step runs on the event loop, which logs the error.
                registry.show((2,))
            for _ in range(3):
                await asyncio.sleep(0)
        assert registry.log is not None
        registry.registry.retry_failures(registry.image)
        for _ in range(3):  # On a busy machine each part of the steps may wait for the event loop.
            await registry.go_on()
        assert registry.log is None
        assert registry.noted is None

    in_loop(scenario)


def _fail(*_: object) -> None:
    raise RuntimeError("an error in the program")


def test_partition_that_comes_back_at_once_keeps_its_log(registry: Registry) -> None:
    """If the broker is a replica again before the log is deleted, the log stays, and later checkpoints name it."""

    async def scenario() -> None:
        log = registry.begin()
        registry.show((2,))
        registry.show((2, 1))
        await registry.go_on()
        assert registry.log is log
        assert len(read_all(log)) == 1
        registry.folder.directory.checkpoint().result()
        assert registry.noted == 1
        registry.show((2,))
        await registry.go_on()
        assert registry.log is None

    in_loop(scenario)


def test_partition_that_comes_back_later_gets_an_empty_log(registry: Registry) -> None:
    """A replica that comes back after the deletion has an empty log in a new folder, and copies the leader's."""

    async def scenario() -> None:
        registry.begin()
        registry.show((2,))
        await registry.go_on()
        registry.show((2, 1))
        log = registry.log
        assert log is not None
        assert (log.log_end_offset, log.directory.name) == (0, "orders-0")
        assert [str(each.log) for each in registry.registry.unled.followed] == ["orders-0"]
        assert len(registry.deleted) == 1

    in_loop(scenario)


def test_partition_that_leaves_again_meanwhile_is_deleted(registry: Registry) -> None:
    """A partition that comes back and leaves again while the checkpoints are written loses its log, too."""

    async def scenario() -> None:
        registry.begin()
        registry.show((2,))
        registry.show((2, 1))
        registry.show((2,))
        await registry.go_on()
        await registry.go_on()
        assert registry.log is None
        assert registry.noted is None

    in_loop(scenario)


def test_kill_before_the_deletion_loses_nothing(registry: Registry) -> None:
    """After a kill between checkpoint and rename, a partition that has come back is opened with its records."""

    async def scenario() -> None:
        registry.begin()
        registry.show((2,))
        registry.folder.directory.wait_for_background()
        assert registry.noted is None
        registry.folder.crash()
        assert registry.folder.directory.find_lost({ORDERS: TOPIC_ID}, lambda _: registry.config) == []
        assert registry.log is not None
        assert len(read_all(registry.log)) == 1

    in_loop(scenario)


def test_kill_after_the_deletion_reports_no_lost_folder(registry: Registry) -> None:
    """After a kill between the rename and the return of the partition, its folder does not count as lost."""

    async def scenario() -> None:
        registry.begin()
        registry.show((2,))
        await registry.go_on()
        registry.folder.crash()
        assert registry.folder.directory.find_lost({ORDERS: TOPIC_ID}, lambda _: registry.config) == []
        assert registry.log is None

    in_loop(scenario)


def test_topic_of_the_same_name_is_not_touched(registry: Registry) -> None:
    """A topic that is deleted and created again meanwhile keeps its new log, and the checkpoints name this one."""

    async def scenario() -> None:
        old = registry.begin()
        registry.show((2,))
        registry.show((1,), topic_id=OTHER_ID)
        await registry.go_on()
        log = registry.log
        assert log is not None
        assert log is not old
        registry.folder.directory.checkpoint().result()
        assert registry.noted == 0

    in_loop(scenario)


def test_broker_without_a_session_deletes_nothing(registry: Registry) -> None:
    """A broker that has lost its session with the metadata store may have an outdated image, and deletes no log."""

    async def scenario() -> None:
        log = registry.begin()
        registry.show((2,))
        registry.registry.refuse_writes()
        await registry.go_on()
        assert registry.log is log

    in_loop(scenario)


def test_broker_that_stops_deletes_nothing(registry: Registry) -> None:
    """A log whose checkpoint is being written while the broker stops is closed in order. The next start sees it."""

    async def scenario() -> None:
        log = registry.begin()
        registry.show((2,))
        registry.registry.unled.departed.stop()
        await registry.go_on()
        assert registry.log is log

    in_loop(scenario)


def test_deletion_waits_for_a_disk_that_is_full(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint that can't be written delays the deletion until the broker tries failures again."""

    async def scenario() -> None:
        log = registry.begin()
        with monkeypatch.context() as patched:
            patched.setattr(OffsetCheckpoints, "write", _refuse)
            registry.show((2,))
            await registry.go_on()
        assert registry.log is log
        registry.registry.retry_failures(registry.image)
        registry.registry.finish()
        await registry.go_on()
        assert registry.log is None

    in_loop(scenario)


def test_log_of_a_moved_partition_follows_the_configuration(registry: Registry) -> None:
    """Until the deletion the log gets later configurations; the topic's deletion deletes it, too."""

    async def scenario() -> None:
        log = registry.begin()
        registry.show((2,))
        registry.config = TopicConfig(file_delete_delay_ms=12345)
        registry.registry.reconfigure()
        registry.registry.finish()
        assert log.config.file_delete_delay_ms == 12345
        registry.registry.apply(registry.image, EMPTY_IMAGE)
        registry.registry.finish()
        assert registry.log is None
        await registry.go_on()
        assert len(registry.deleted) == 1

    in_loop(scenario)


def _refuse(checkpoints: OffsetCheckpoints, contents: CheckpointContents) -> None:
    raise OSError("the disk is full")
