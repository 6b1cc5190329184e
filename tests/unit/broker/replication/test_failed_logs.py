"""Tests that a broker gives up the places of replicas whose logs have failed, whatever the leader proposes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from tests.support.event_loop import in_loop
from tests.support.metadata_brokers import ENDPOINTS, connect

from klamm.broker.replication.failed_logs import FailedLogs
from klamm.metadata.image import PartitionImage
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.replicas.isr_changes import IsrProposal
from klamm.metadata.service import MetadataService, NewTopic
from klamm.protocol.types import BrokerId, PartitionIndex, TopicPartition
from klamm.worker.simulated_loop import SimulatedLoop

LEADER, FOLLOWER = BrokerId(1), BrokerId(2)
ORDERS = TopicPartition("orders", PartitionIndex(0))
TURNS = 200
_PAUSE_MS = 1_000


def orders(service: MetadataService) -> PartitionImage:
    return service.image.topics["orders"].partitions[0]


async def until(is_true: Callable[[], bool]) -> None:
    for _ in range(TURNS):
        if is_true():
            return
        await asyncio.sleep(0)
    raise AssertionError("it has not happened")


class _Follower:
    """A leader and a follower, whose log may be offline."""

    def __init__(self, leader: MetadataService, follower: MetadataService) -> None:
        self.leader = leader
        self.metadata = follower
        self.is_offline = True
        self.tasks: list[asyncio.Task[None]] = []
        self.failed = FailedLogs(FOLLOWER, follower, self._spawn, lambda _: self.is_offline, _PAUSE_MS)
        follower.subscribe(self.failed.on_metadata_update)

    @classmethod
    async def begin(cls) -> _Follower:
        metadata = MemoryMetadata()
        leader, _ = await connect(metadata, LEADER)
        follower, _ = await connect(metadata, FOLLOWER)
        await leader.start_broker(ENDPOINTS)
        await follower.start_broker(ENDPOINTS)
        await leader.create_topics([NewTopic("orders", assignments=[(0, [LEADER, FOLLOWER])])])
        await until(lambda: "orders" in follower.image.topics)
        return cls(leader, follower)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.ensure_future(coroutine))

    async def propose(self) -> None:
        """Lets the leader write that the follower is in sync."""
        topic, partition = self.leader.image.topics["orders"], orders(self.leader)
        members = tuple((each, self.leader.image.brokers[each].epoch) for each in (LEADER, FOLLOWER))
        proposal = IsrProposal(
            topic.topic_id, PartitionIndex(0), LEADER, partition.leader_epoch, partition.partition_epoch, members
        )
        (outcome,) = await self.leader.replicas.alter_isr([proposal])
        assert not isinstance(outcome, Exception)

    async def end(self) -> None:
        await self.leader.close()
        await self.metadata.close()


@in_loop
async def test_a_place_that_comes_after_the_failure_is_given_up_too() -> None:
    """The leader's proposal was on its way when the log failed. A replica whose log is offline could be elected, and
    nothing would lead the partition."""
    world = await _Follower.begin()
    world.failed.add(ORDERS)
    await until(lambda: orders(world.leader).isr == (LEADER,))
    await world.propose()
    await until(lambda: orders(world.leader).isr == (LEADER,))
    await world.end()


@in_loop
async def test_a_log_that_can_be_written_to_again_keeps_its_place() -> None:
    """A full disk has space again: the replica catches up, and is in sync. Only a log that is offline is given up again
    and again."""
    world = await _Follower.begin()
    world.is_offline = False
    world.failed.add(ORDERS)
    await until(lambda: orders(world.leader).isr == (LEADER,))
    await world.propose()
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert orders(world.metadata).isr == (LEADER, FOLLOWER)
    await world.end()


@in_loop
async def test_a_change_of_another_topic_gives_up_nothing_again() -> None:
    """The only replica that is in sync keeps its places although its log is offline. All logs of a broker may be
    offline: a look at each of them, and another decision, at each change of the metadata would hold the event loop."""
    world = await _Follower.begin()
    counts: list[int] = []

    async def keep_places(failed: Any) -> int:
        counts.append(len(failed))
        return 0

    world.metadata.replicas.give_up = keep_places  # type: ignore[method-assign]
    world.failed.add(ORDERS)
    await until(lambda: counts == [1])
    await world.leader.create_topics([NewTopic("others", assignments=[(0, [LEADER, FOLLOWER])])])
    await until(lambda: "others" in world.metadata.image.topics)
    for _ in range(TURNS):
        await asyncio.sleep(0)
    assert counts == [1]
    await world.end()


@in_loop
async def test_a_failure_during_another_one_is_not_forgotten() -> None:
    """A log fails again while the metadata are written because of it."""
    world = await _Follower.begin()
    give_up, count = world.metadata.replicas.give_up, 0

    async def give_up_and_fail_again(failed: Any) -> int:
        nonlocal count
        count += 1
        if count == 1:
            world.failed.add(ORDERS)
        return await give_up(failed)

    world.metadata.replicas.give_up = give_up_and_fail_again  # type: ignore[method-assign]
    world.failed.add(ORDERS)
    await until(lambda: count == 2)
    await world.end()


def test_an_unexpected_error_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the replica would keep its places, and could be elected although its log is offline."""

    async def scenario() -> None:
        world = await _Follower.begin()
        give_up, errors = world.metadata.replicas.give_up, iter([RuntimeError("an error in the program")])

        async def fail_once(failed: Any) -> int:
            for error in errors:
                raise error
            return await give_up(failed)

        monkeypatch.setattr(world.metadata.replicas, "give_up", fail_once)
        world.failed.add(ORDERS)
        await asyncio.sleep(10)
        assert orders(world.leader).isr == (LEADER,)
        await world.end()

    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(scenario())
