"""Tests what happens to partitions when one replica's log can't be used any more."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.support.metadata_brokers import ENDPOINTS, connect
from tests.unit.metadata.replicas.test_broker_departure import after, ids, image, kept, roles

from klamm.metadata.image import NO_BROKER, MetadataImage
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.metadata_store import Plan
from klamm.metadata.replicas.failed_replicas import GivenUp, plan_distrust, plan_failed_replicas
from klamm.metadata.service import NewTopic
from klamm.protocol.types import BrokerId, PartitionIndex, TopicPartition

FIRST = TopicPartition("orders", PartitionIndex(0))


def failed(before: MetadataImage, broker_id: int, *, run: str | None = None) -> tuple[MetadataImage, Plan[GivenUp]]:
    """Makes the broker's replica of the first partition fail."""
    planning = plan_failed_replicas(before, BrokerId(broker_id), run or f"run-{broker_id}", [FIRST], 100)
    while True:
        try:
            next(planning)
        except StopIteration as end:
            return after(before, end.value), end.value


def with_roles(before: MetadataImage, **changes: Any) -> MetadataImage:
    topic = before.topics["orders"]
    changed = replace(topic, partitions=(replace(topic.partitions[0], **changes),))
    return replace(before, topics={"orders": changed}, topics_by_id={topic.topic_id: changed})


@pytest.mark.parametrize(("broker_id", "expected"), [(1, (2, (2, 3), ())), (3, (1, (1, 2), ()))])
def test_a_failed_replica_neither_leads_nor_is_in_sync(broker_id: int, expected: object) -> None:
    """The broker stays live; upkeep does not give the place back."""
    result, plan = failed(image(1, 2, 3), broker_id)
    assert roles(result) == expected
    assert f"live/{broker_id}" in plan.reads
    assert roles(kept(result)[0]) == expected


def test_a_failed_replica_is_not_eligible() -> None:
    """With too few in-sync replicas the others may become eligible, the failed one may not."""
    before = with_roles(image(1, 2, 3), isr=ids(1, 2))
    result, _ = failed(before, 1)
    assert roles(result) == (2, (2,), ())


def test_an_eligible_replica_that_fails_is_eligible_no_more() -> None:
    """Its place among the eligible leader replicas goes, and the leader stays."""
    before = with_roles(image(1, 2, 3), isr=ids(1), elr=ids(2))
    assert roles(failed(before, 2)[0]) == (1, (1,), ())


def test_the_only_replica_in_sync_keeps_its_place() -> None:
    """Nobody else may hold all committed records: the partition waits for the broker's repair."""
    before = with_roles(image(1, 2, 3), isr=ids(1))
    result, plan = failed(before, 1)
    assert plan.result.changed == 0
    assert roles(result) == (1, (1,), ())


def test_an_eligible_replica_takes_over_from_the_only_one_in_sync() -> None:
    """An eligible leader replica holds all committed records."""
    before = with_roles(image(1, 2, 3), isr=ids(1), elr=ids(3))
    assert roles(failed(before, 1)[0]) == (3, (3,), ())


def test_nobody_leads_while_the_others_are_away() -> None:
    """The failed replica does not lead because it is the only live one; the first of the others that is back does."""
    before = with_roles(image(1, 3), isr=ids(1, 2))
    result, _ = failed(before, 1)
    assert roles(result) == (NO_BROKER, (2,), ())
    again = replace(result, brokers=image(1, 2, 3).brokers, live=image(1, 2, 3).live)
    assert roles(kept(again)[0]) == (2, (2,), ())


def test_a_later_run_is_not_concerned() -> None:
    """A run that has begun since has no places yet."""
    assert failed(image(1, 2, 3), 1, run="an earlier run")[1].result.changed == 0


@pytest.mark.parametrize("replicas", [((1,),), ((2, 3),)])
def test_other_partitions_do_not_change(replicas: Any) -> None:
    """A partition with one replica keeps its leader, and a broker gives up nothing that it doesn't have."""
    assert failed(image(1, 2, 3, replicas=replicas), 1)[1].result.changed == 0


def test_many_replicas_give_up_in_several_transactions() -> None:
    """All partitions of a broker whose disk fails find other leaders, however small a transaction is."""

    async def scenario() -> None:
        metadata = MemoryMetadata(maximum_operations=10)
        connected = [await connect(metadata, broker_id) for broker_id in (1, 2, 3)]
        for service, _ in connected:
            await service.start_broker(ENDPOINTS)
        (one, store), *_ = connected
        await one.ensure_topic(NewTopic("t", partitions=12, replication_factor=3))
        before = store.transactions
        keys = [TopicPartition("t", PartitionIndex(index)) for index in range(12)]
        assert await one.replicas.give_up([*keys, TopicPartition("unknown", PartitionIndex(0))]) == 12
        assert store.transactions > before + 1
        for partition in one.image.topics["t"].partitions:
            assert partition.leader in partition.isr
            assert BrokerId(1) not in partition.isr
        assert await one.replicas.give_up(keys) == 0
        for service, _ in connected:
            await service.close()

    asyncio.run(scenario())


def test_a_run_whose_disk_fails_can_be_distrusted() -> None:
    """The disk may refuse to remove the mark of the run. Then the registration names no run, and no mark fits it."""

    async def scenario() -> None:
        service, _ = await connect(MemoryMetadata(), 1)
        before = await service.start_broker(ENDPOINTS)
        assert before.latest_run == service.incarnation
        for _ in range(2):
            await service.replicas.distrust_run()
            assert service.image.brokers[BrokerId(1)] == before._replace(latest_run="")
        await service.close()

    asyncio.run(scenario())


def test_only_the_live_run_is_distrusted() -> None:
    """The next run has its own places, and its own mark."""
    before = image(1, 2, 3)
    assert not plan_distrust(before, BrokerId(1), "an earlier run").changes
    assert not plan_distrust(before, BrokerId(4), "run-4").changes
