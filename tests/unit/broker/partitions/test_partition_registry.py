"""Tests how the registry follows the images of the metadata: which partitions it leads, and when it resigns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, batch

from klamm.broker.partitions import partition_registry as registry_module
from klamm.broker.partitions.followers import ReplicationPort
from klamm.broker.partitions.partition import Partition
from klamm.broker.partitions.partition_registry import PartitionRegistry
from klamm.broker.partitions.role import Role
from klamm.config.topic_config import TopicConfig
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicImage
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, LeaderEpoch, Offset, PartitionIndex, TopicId, TopicPartition

HERE, ELSEWHERE, NO_ONE = BrokerId(1), BrokerId(2), BrokerId(-1)
TOPIC_ID = TopicId(bytes(range(16)))
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def partition_image(index: int = 0, leader: BrokerId = HERE, epoch: int = 0, *, replicas: Any = None) -> PartitionImage:
    members = tuple(map(BrokerId, replicas or (leader,)))
    return PartitionImage(PartitionIndex(index), leader, LeaderEpoch(epoch), members, members)


def image_of(*partitions: PartitionImage, name: str = "orders", topic_id: TopicId = TOPIC_ID) -> MetadataImage:
    topic = TopicImage(name, topic_id, partitions)
    return MetadataImage(topics={name: topic}, topics_by_id={topic_id: topic})


class Observer:
    """An observer of appends and of commits, which notes its calls."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def appended(self, size_bytes: int) -> None:
        self.seen.append(size_bytes)

    def interrupted(self) -> None:
        self.seen.append("interrupted")

    def committed(self) -> None:
        self.seen.append("committed")

    def failed(self, code: ErrorCode) -> None:
        self.seen.append(code)


class Registry:
    """A registry of broker 1 over a real data directory. `told` has the calls of a leadership observer."""

    def __init__(self, path: Path) -> None:
        self.folder = LogFolder(path)
        self.config = TopicConfig()
        self.registry = PartitionRegistry(HERE, self.folder.directory, lambda topic: self.config)
        self.told: list[tuple[str, int, bool]] = []
        self.registry.on_leadership(self._tell)
        self.image = EMPTY_IMAGE

    def _tell(self, partition: Partition, is_leader: bool) -> None:
        self.told.append((str(partition), partition.leader_epoch, is_leader))

    def show(self, image: MetadataImage, *, settle: bool = True) -> None:
        before, self.image = self.image, image
        self.registry.apply(before, image)
        if settle:
            self.registry.finish()

    def partition(self, index: int = 0) -> Partition:
        return self.registry.get("orders", index)

    def code(self, index: int = 0, epoch: int = -1) -> ErrorCode:
        with pytest.raises(KafkaError) as refused:
            self.registry.get("orders", index, epoch)
        return refused.value.code


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    made = Registry(tmp_path)
    yield made
    made.folder.close()


def in_loop(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(scenario())


def test_partition_has_a_log_on_each_replica(registry: Registry) -> None:
    """The registry creates logs for partitions that it leads, and for those that it follows. Roles follow leader and
    replicas."""

    async def scenario() -> None:
        registry.show(
            image_of(
                partition_image(0),
                partition_image(1, ELSEWHERE),
                partition_image(2, ELSEWHERE, replicas=(2, 1)),
                partition_image(3, NO_ONE, replicas=(1,)),
            )
        )
        roles = [registry.registry.role("orders", index) for index in range(5)]
        assert roles == [Role.LEADER, Role.NOT_HERE, Role.FOLLOWER, Role.FOLLOWER, None]
        assert [str(each) for each in registry.folder.directory.logs] == ["orders-0", "orders-2"]
        assert [str(each.log) for each in registry.registry.unled.followed] == ["orders-2"]
        assert [registry.code(index) for index in (1, 2, 3)] == [NOT_LEADER] * 3
        assert registry.code(4) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    in_loop(scenario)


def test_partition_without_a_log_is_not_followed_by_its_leader(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replicated partition that this broker should lead, but whose log can't be created, is followed by no one here.
    A change of the broker's defaults does not change this. It is led once its log can be created."""

    def fail(*_: Any) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

    async def scenario() -> None:
        image = image_of(partition_image(replicas=(1, 2)))
        with monkeypatch.context() as patched:
            patched.setattr(registry.folder.directory, "create", fail)
            registry.show(image)
        registry.registry.reconfigure()
        await registry.registry.settled()
        assert not registry.registry.unled.followed
        assert registry.code() is ErrorCode.KAFKA_STORAGE_ERROR
        registry.registry.retry_failures(image)
        await registry.registry.settled()
        assert registry.partition().leads
        assert not registry.registry.unled.followed

    in_loop(scenario)


def test_replica_without_a_log_gives_up_its_places(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next attempt to create the log may come minutes later. Until then another replica leads, and no commit waits
    for this one."""
    given_up: list[TopicPartition] = []

    def fail(*_: Any) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

    async def scenario() -> None:
        registry.registry.replicate(
            cast(ReplicationPort, SimpleNamespace(node_id=HERE, give_up=given_up.append)), lambda: True
        )
        monkeypatch.setattr(registry.folder.directory, "create", fail)
        not_in_sync = replace(partition_image(3, ELSEWHERE, replicas=(2, 1)), isr=(ELSEWHERE,))
        registry.show(
            image_of(
                partition_image(0),
                partition_image(1, replicas=(1, 2)),
                partition_image(2, ELSEWHERE, replicas=(2, 1)),
                not_in_sync,
            )
        )

    in_loop(scenario)
    assert [str(each) for each in given_up] == ["orders-1", "orders-2"]


def test_partition_resigns_before_the_steps_of_other_partitions(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resignation takes effect inside the call that shows the image, although steps of other topics are pending. A
    step of an older image leads nothing that a newer image moved."""

    async def scenario() -> None:
        registry.show(image_of(partition_image(0)))
        held = registry.partition()
        monkeypatch.setattr(registry_module, "STEP_S", -1.0)
        many = [partition_image(0), *(partition_image(index) for index in range(1, 20))]
        registry.show(image_of(*many), settle=False)
        moved = [partition_image(index, ELSEWHERE, 1) for index in range(20)]
        registry.show(image_of(*moved), settle=False)
        assert registry.code() is NOT_LEADER
        with pytest.raises(KafkaError):
            held.append(batch(), NOW_MS)
        registry.registry.finish()
        assert [registry.code(index) for index in range(20)] == [NOT_LEADER] * 20
        assert held.log.log_end_offset == 0
        assert registry.told[0] == ("orders-0", 0, True)
        assert ("orders-0", 0, False) in registry.told
        led = {name for name, _, is_leader in registry.told if is_leader}
        assert led == {name for name, _, is_leader in registry.told if not is_leader}

    in_loop(scenario)


def test_changes_of_partitions_that_are_led_already_are_followed_in_steps(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic may have thousands of partitions, and each may have a new leader epoch or other in-sync replicas. A later
    image takes over the partitions that are left."""

    async def scenario() -> None:
        def epochs() -> list[int]:
            return [registry.partition(index).leader_epoch for index in range(5)]

        registry.show(image_of(*(partition_image(index) for index in range(5))))
        await asyncio.sleep(0)  # the registry is idle
        monkeypatch.setattr(registry_module, "STEP_S", -1.0)
        registry.show(image_of(*(partition_image(index, epoch=1) for index in range(5))), settle=False)
        assert epochs() == [1, 0, 0, 0, 0]
        registry.show(image_of(*(partition_image(index, epoch=2) for index in range(5))), settle=False)
        await registry.registry.settled()
        assert epochs() == [2] * 5

    in_loop(scenario)


def test_internal_topic_tells_its_observers_inside_the_call(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coordinator hears of the resignation before any other request is handled, even if steps are pending."""

    async def scenario() -> None:
        monkeypatch.setattr(registry_module, "STEP_S", -1.0)
        name = "__consumer_offsets"
        registry.show(image_of(*(partition_image(index) for index in range(5)), name=name))
        registry.told.clear()
        moved = [partition_image(index, ELSEWHERE, 1) for index in range(5)]
        registry.show(image_of(*moved, name=name), settle=False)
        assert registry.told == [(f"{name}-{index}", 0, False) for index in range(5)]

    in_loop(scenario)


def test_all_that_wait_hear_of_the_resignation(registry: Registry) -> None:
    """Observers of commits fail with NOT_LEADER_OR_FOLLOWER, and observers of appends are interrupted."""

    async def scenario() -> None:
        registry.show(image_of(partition_image(replicas=(1, 2, 3))))
        partition = registry.partition()
        fetch, produce = Observer(), Observer()
        partition.observe(fetch)
        partition.when_committed(partition.log.log_end_offset, produce)
        registry.show(image_of(partition_image(leader=ELSEWHERE, epoch=1)))
        assert fetch.seen == ["interrupted"]
        assert produce.seen == [NOT_LEADER]

    in_loop(scenario)


def test_new_leader_epoch_is_told_and_a_change_of_replicas_is_not(registry: Registry) -> None:
    """Under a new leader epoch this broker leads on, and its observers are told again. Other replicas or in-sync
    replicas change nothing for them."""

    async def scenario() -> None:
        registry.show(image_of(partition_image()))
        partition = registry.partition()
        partition.append(batch(), NOW_MS)
        registry.told.clear()
        registry.show(image_of(partition_image(replicas=(1, 2))))
        registry.show(image_of(replace(partition_image(replicas=(1, 2)), isr=(HERE,))))
        assert registry.told == []
        registry.show(image_of(partition_image(epoch=3)))
        assert registry.told == [("orders-0", 3, True)]
        assert registry.partition() is partition
        partition.append(batch(), NOW_MS)
        assert [tuple(entry) for entry in partition.log.leader_epochs] == [(0, 0), (3, 1)]

    in_loop(scenario)


def test_replica_compares_the_leader_epoch_of_the_client_first(registry: Registry) -> None:
    """As in Kafka, a replica that does not lead answers FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH to a client with
    another epoch; a broker without a replica knows no epoch."""

    async def scenario() -> None:
        registry.show(
            image_of(partition_image(0, ELSEWHERE, 5, replicas=(2, 1)), partition_image(1, ELSEWHERE, 5, replicas=(2,)))
        )
        codes = [registry.code(0, epoch) for epoch in (-1, 4, 5, 6)]
        assert codes == [NOT_LEADER, ErrorCode.FENCED_LEADER_EPOCH, NOT_LEADER, ErrorCode.UNKNOWN_LEADER_EPOCH]
        assert [registry.code(1, epoch) for epoch in (-1, 4, 5, 6)] == [NOT_LEADER] * 4

    in_loop(scenario)


def test_topic_of_the_same_name_gets_no_log_of_another_topic(registry: Registry) -> None:
    """A topic that was deleted and created again elsewhere loses its log here, also if it was not led here."""

    async def scenario() -> None:
        registry.show(image_of(partition_image()))
        registry.show(image_of(partition_image(leader=ELSEWHERE, epoch=1)))
        registry.show(image_of(partition_image(), topic_id=TopicId(bytes(16)[:-1] + b"x")))
        assert registry.partition().log.log_end_offset == 0
        assert registry.partition().log.topic_id != TOPIC_ID

    in_loop(scenario)


def test_logs_that_cant_be_created_are_tried_in_steps(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk refuses each of perhaps thousands of logs: the event loop runs in between."""

    def fail(*_: Any) -> None:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")

    async def scenario() -> None:
        monkeypatch.setattr(registry.folder.directory, "create", fail)
        image = image_of(*(partition_image(index) for index in range(5)))
        registry.show(image)
        assert len(list(registry.registry._lead(image.topics["orders"]))) == 5

    in_loop(scenario)


def test_partition_of_a_deleted_topic_is_of_no_other_topic(registry: Registry) -> None:
    """The topic is created again, and the old partition resigns in a later step: what is proposed for its in-sync
    replicas meanwhile must not change the new topic."""

    async def scenario() -> None:
        registry.show(image_of(partition_image()))
        old = registry.partition()
        assert registry.registry.by_name["orders"].holds(old)
        registry.show(image_of(partition_image(), topic_id=TopicId(bytes(range(1, 17)))), settle=False)
        assert not registry.registry.by_name["orders"].holds(old)
        registry.registry.finish()
        assert not registry.registry.by_name["orders"].holds(old)
        assert registry.registry.by_name["orders"].holds(registry.partition())

    in_loop(scenario)


def test_high_watermark_stands_still_below_the_minimum_of_in_sync_replicas(registry: Registry) -> None:
    """With fewer in-sync replicas than `min.insync.replicas`, appends with acks=1 commit nothing (I5). Their records
    are committed as soon as the metadata have enough in-sync replicas again."""

    async def scenario() -> None:
        registry.config = TopicConfig(min_insync_replicas=2)
        image = replace(partition_image(replicas=(1, 2)), isr=(HERE,))
        registry.show(image_of(image))
        partition = registry.partition()
        partition.append(batch(), NOW_MS)
        assert (partition.log.high_watermark, partition.log.log_end_offset) == (0, 1)
        with pytest.raises(KafkaError) as refused:
            partition.check_in_sync_replicas()
        assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
        waiting = Observer()
        partition.when_committed(Offset(0), waiting)
        registry.show(image_of(partition_image()))
        assert partition.log.high_watermark == 1
        assert waiting.seen == ["committed"]

    in_loop(scenario)
