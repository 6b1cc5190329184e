"""Tests what the changes of partitions in one transaction depend on, and how many have room in it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.metadata_brokers import ENDPOINTS, connect
from tests.unit.metadata.replicas.test_broker_departure import ids, image

from klamm.metadata.directory_content import DirectoryContent
from klamm.metadata.image import NO_BROKER, PartitionImage
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.replicas.isr_changes import IsrProposal
from klamm.metadata.replicas.partition_changes import PartitionChanges
from klamm.metadata.service import NewTopic
from klamm.protocol.types import BrokerId, LeaderEpoch

OF = image(1, 2, 3, replicas=((1, 2, 3),) * 5)
TOPIC = OF.topics["orders"]
FIRST = TOPIC.partitions[0]


def led_by(leader: int, *, isr: tuple[int, ...] = (2, 3), before: PartitionImage = FIRST, **more: object) -> list[str]:
    """Returns what a change to this leader reads."""
    changes = PartitionChanges(OF, 100)
    changed = replace(before, leader=BrokerId(leader), leader_epoch=LeaderEpoch(1), isr=ids(*isr), **more)  # type: ignore[arg-type]
    assert changes.add(TOPIC, before, changed)
    return sorted(changes.plan(None).reads)


def test_a_change_depends_on_the_run_of_the_new_leader() -> None:
    """A leader that stays, and a partition without a leader, need no run."""
    assert led_by(2) == ["live/2"]
    assert led_by(1) == []
    assert led_by(NO_BROKER) == []


def test_an_unclean_election_depends_on_the_replicas_that_have_more_records() -> None:
    """These are the in-sync replicas, the eligible ones and the last known leader, which may be coming back."""
    lonely = replace(FIRST, isr=ids(1), elr=ids(2))
    assert led_by(3, isr=(3,), before=lonely, is_recovering=True) == ["live/1", "live/2", "live/3"]
    leaderless = replace(FIRST, leader=NO_BROKER, isr=(), last_known_leader=BrokerId(1))
    assert led_by(3, isr=(3,), before=leaderless, is_recovering=True) == ["live/1", "live/3"]
    assert led_by(2, isr=(2,), before=lonely) == ["live/2"]


def test_a_transaction_has_room_for_a_number_of_keys() -> None:
    """The keys that change and those that are compared count, each once. The first change has room always."""
    changes = PartitionChanges(OF, 3)
    added = [changes.add(TOPIC, each, replace(each, leader=BrokerId(2), isr=ids(2, 3))) for each in TOPIC.partitions]
    assert added == [True, True, False, False, False]
    assert len(changes.plan(None).changes) == len(changes) == 2
    assert PartitionChanges(OF, 1).add(TOPIC, FIRST, replace(FIRST, leader=BrokerId(2)))


def test_without_a_change_nothing_is_compared() -> None:
    """A plan without changes writes no transaction."""
    assert not PartitionChanges(OF, 100, ids(1)).plan(None).reads


@pytest.mark.parametrize("has_kept_all", [True, False])
def test_a_replica_that_comes_back_while_another_one_is_elected(has_kept_all: bool) -> None:
    """An unclean election that is decided while the only in-sync replica is away does not happen after that replica is
    back. It leads instead, as the last known leader if it may have lost records."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        connected = {BrokerId(number): await connect(metadata, number) for number in (1, 2)}
        for service, _ in connected.values():
            await service.start_broker(ENDPOINTS)
        overrides = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        first = connected[BrokerId(1)][0]
        topic = await first.ensure_topic(NewTopic("t", partitions=1, replication_factor=2, configs=overrides))
        leader = topic.partitions[0].leader
        led, _ = connected.pop(leader)
        ((other, store),) = connected.values()
        proposal = IsrProposal(topic.topic_id, topic.partitions[0].index, leader, LeaderEpoch(0), 0, [(leader, -1)])
        await led.replicas.alter_isr([proposal])
        run = led.image.live[leader].incarnation
        await led.close()

        may_go_on = store.held_at[store.transactions + 1] = asyncio.Event()
        electing = asyncio.ensure_future(other.replicas.keep_leaders())
        await store.held.wait()
        again, _ = await connect(metadata, leader)
        content = DirectoryContent(kept_runs=(run,) if has_kept_all else (), recorded_runs=(run,))
        await again.start_broker(ENDPOINTS, known_incarnation=run, content=content)
        may_go_on.set()
        await electing
        partition = again.image.topics["t"].partitions[0]
        assert (partition.leader, partition.is_recovering) == (leader, not has_kept_all)
        await again.close()
        await other.close()

    asyncio.run(scenario())
