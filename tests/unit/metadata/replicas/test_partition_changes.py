"""Tests what the changes of partitions in one transaction depend on, and how many have room in it."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from tests.support.metadata_brokers import ENDPOINTS, connect
from tests.unit.metadata.replicas.test_broker_departure import ids, image

from klamm.metadata.directory_content import DirectoryContent
from klamm.metadata.image import NO_BROKER, PartitionImage, ResourceType
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
    """These are the in-sync replicas, the eligible ones and the last known leader, which may be coming back. The
    settings of the topic may forbid the election meanwhile."""
    lonely = replace(FIRST, isr=ids(1), elr=ids(2))
    assert led_by(3, isr=(3,), before=lonely, is_recovering=True) == ["live/1", "live/2", "live/3", "topics/orders"]
    leaderless = replace(FIRST, leader=NO_BROKER, isr=(), last_known_leader=BrokerId(1))
    assert led_by(3, isr=(3,), before=leaderless, is_recovering=True) == ["live/1", "live/3", "topics/orders"]
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


def test_a_replica_that_comes_back_while_another_one_is_elected() -> None:
    """An unclean election that is decided while the eligible replica is away, and arrives when that replica is live
    again, does not happen: the eligible replica leads, and nothing is lost.

    The registration of the eligible replica does not change the partition, because the leader fails after its start has
    looked at it.
    """

    async def scenario() -> None:
        metadata = MemoryMetadata()
        connected = {BrokerId(number): await connect(metadata, number) for number in (1, 2, 3)}
        for service, _ in connected.values():
            await service.start_broker(ENDPOINTS)
        overrides = {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}
        some, _ = connected[BrokerId(1)]
        topic = await some.ensure_topic(NewTopic("t", partitions=1, replication_factor=3, configs=overrides))
        first, second, third = topic.partitions[0].replicas
        (leader, _), (eligible, _), (other, store) = (connected[number] for number in (first, second, third))
        proposed = [(first, -1), (second, -1)]
        proposal = IsrProposal(topic.topic_id, topic.partitions[0].index, first, LeaderEpoch(0), 0, proposed)
        await leader.replicas.alter_isr([proposal])
        run = eligible.image.live[second].incarnation
        await eligible.close()
        await other.replicas.keep_leaders()
        assert other.image.topics["t"].partitions[0].elr == (second,)

        again, store_again = await connect(metadata, second)
        may_register = store_again.held_at[1] = asyncio.Event()
        content = DirectoryContent(kept_runs=(run,))
        starting = asyncio.ensure_future(again.start_broker(ENDPOINTS, known_incarnation=run, content=content))
        await store_again.held.wait()
        await leader.close()
        may_elect = store.held_at[store.transactions + 1] = asyncio.Event()
        electing = asyncio.ensure_future(other.replicas.keep_leaders())
        await store.held.wait()
        may_register.set()
        await starting
        may_elect.set()
        await electing
        partition = again.image.topics["t"].partitions[0]
        assert (partition.leader, partition.isr, partition.is_recovering) == (second, (second,), False)
        await again.close()
        await other.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(("resource_type", "name"), [(ResourceType.TOPIC, "t"), (ResourceType.BROKER, "")])
def test_unclean_elections_that_are_forbidden_meanwhile(resource_type: ResourceType, name: str) -> None:
    """An unclean election that arrives after the setting for it was acknowledged as changed does not happen."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        connected = {BrokerId(number): await connect(metadata, number) for number in (1, 2, 3)}
        for service, _ in connected.values():
            await service.start_broker(ENDPOINTS)
        some, _ = connected[BrokerId(1)]
        topic = await some.ensure_topic(NewTopic("t", partitions=1, replication_factor=2))
        setting = "unclean.leader.election.enable"
        await some.alter_configs({(resource_type, name): {setting: "true"}})
        first, second = topic.partitions[0].replicas
        (leader, _), (other, store) = connected.pop(first), connected.pop(second)
        ((administrator, _),) = connected.values()
        proposal = IsrProposal(topic.topic_id, topic.partitions[0].index, first, LeaderEpoch(0), 0, [(first, -1)])
        await leader.replicas.alter_isr([proposal])
        await leader.close()
        may_elect = store.held_at[store.transactions + 1] = asyncio.Event()
        electing = asyncio.ensure_future(other.replicas.keep_leaders())
        await store.held.wait()
        await administrator.alter_configs({(resource_type, name): {setting: "false"}})
        may_elect.set()
        await electing
        partition = other.image.topics["t"].partitions[0]
        assert (partition.leader, partition.elr, partition.is_recovering) == (NO_BROKER, (first,), False)
        await administrator.close()
        await other.close()

    asyncio.run(scenario())


def test_a_starting_replica_elects_no_other_one_uncleanly() -> None:
    """The start of the only in-sync replica, which has kept all its records, leaves the partition to itself."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        connected = {BrokerId(number): await connect(metadata, number) for number in (1, 2)}
        for service, _ in connected.values():
            await service.start_broker(ENDPOINTS)
        overrides = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        some, _ = connected[BrokerId(1)]
        topic = await some.ensure_topic(NewTopic("t", partitions=1, replication_factor=2, configs=overrides))
        first = topic.partitions[0].leader
        leader, _ = connected.pop(first)
        ((other, _),) = connected.values()
        proposal = IsrProposal(topic.topic_id, topic.partitions[0].index, first, LeaderEpoch(0), 0, [(first, -1)])
        await leader.replicas.alter_isr([proposal])
        run = leader.image.live[first].incarnation
        await leader.close()
        again, _ = await connect(metadata, first)
        await again.start_broker(ENDPOINTS, known_incarnation=run, content=DirectoryContent(kept_runs=(run,)))
        await other.replicas.keep_leaders()
        partition = again.image.topics["t"].partitions[0]
        assert (partition.leader, partition.is_recovering) == (first, False)
        await again.close()
        await other.close()

    asyncio.run(scenario())
