"""Tests what happens to partitions when brokers go, stop and come back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from tests.support.metadata_brokers import ENDPOINTS, connect

from klamm.metadata.brokers import Registration, plan_registration, plan_stop
from klamm.metadata.directory_content import DirectoryContent
from klamm.metadata.entries import apply
from klamm.metadata.image import (
    NO_BROKER,
    BrokerImage,
    LiveBroker,
    MetadataImage,
    PartitionImage,
    ResourceType,
    TopicImage,
)
from klamm.metadata.memory_store import MemoryMetadata
from klamm.metadata.metadata_store import Plan, Versioned
from klamm.metadata.replicas.broker_departure import plan_upkeep
from klamm.metadata.replicas.reassignments import Reassignment, plan_reassignments
from klamm.metadata.service import NewTopic
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicPartition

TOPIC_ID = TopicId(bytes(range(16)))
FIRST = TopicPartition("orders", PartitionIndex(0))


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def image(
    *live: int, replicas: Any = ((1, 2, 3),), least: int = 2, stopping: Any = (), unclean: str | None = None
) -> MetadataImage:
    """Returns a topic whose partitions have these replicas, all in sync, the first one as leader."""
    partitions = tuple(
        PartitionImage(PartitionIndex(index), BrokerId(each[0]), LeaderEpoch(0), ids(*each), ids(*each))
        for index, each in enumerate(replicas)
    )
    overrides = {"min.insync.replicas": str(least)}
    if unclean is not None:
        overrides["unclean.leader.election.enable"] = unclean
    topic = TopicImage("orders", TOPIC_ID, partitions, overrides)
    known = {
        BrokerId(each): BrokerImage(BrokerId(each), "h", 9092, None, each if each in live else -1)._replace(
            incarnation=f"run-{each}" if each in live else "",
            is_stopping=each in stopping,
            latest_run=f"run-{each}",
        )
        for each in (1, 2, 3, 4)
    }
    runs = {BrokerId(each): LiveBroker(f"run-{each}", each, each in stopping) for each in live}
    return MetadataImage(
        revision=100,
        cluster_id="cluster",
        topics={"orders": topic},
        topics_by_id={TOPIC_ID: topic},
        names_by_collision_key={"orders": "orders"},
        brokers={each: broker for each, broker in known.items() if each in live},
        registrations=known,
        live=runs,
        metadata_version=2,
    )


def after(before: MetadataImage, plan: Plan[Any]) -> MetadataImage:
    revision = before.revision + 1
    entries = {
        change.key: None if change.value is None else Versioned(change.value, revision, revision)
        for change in plan.changes
    }
    return apply(before, revision, entries)


def kept(before: MetadataImage, limit: int = 100, **options: Any) -> tuple[MetadataImage, Plan[int]]:
    planning = plan_upkeep(before, limit, **options)
    while True:
        try:
            next(planning)
        except StopIteration as end:
            return after(before, end.value), end.value


def reassigned(before: MetadataImage, replicas: tuple[int, ...] | None) -> MetadataImage:
    planning = plan_reassignments(before, [Reassignment("orders", 0, replicas)], 100, allows_other_factor=True)
    while True:
        try:
            next(planning)
        except StopIteration as end:
            return after(before, end.value)


def roles(of: MetadataImage, index: int = 0) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    partition = of.topics["orders"].partitions[index]
    return partition.leader, partition.isr, partition.elr


def test_leaders_of_a_broker_that_has_gone_move() -> None:
    """The decision depends on the run of the broker that is elected."""
    result, plan = kept(image(2, 3))
    assert roles(result) == (2, (2, 3), ())
    assert plan.reads == ["live/2"]
    assert kept(result)[1].result == 0


def test_partition_with_one_replica_keeps_its_leader() -> None:
    """No other broker has its records."""
    before = image(2, 3, replicas=((1,),))
    assert kept(before)[1].result == 0


def test_last_replica_stays_eligible_and_leads_when_it_is_back() -> None:
    """All brokers go; only the one that was in sync last may lead again."""
    result = image(1, replicas=((1, 2, 3),))
    result, _ = kept(result)
    assert roles(result) == (1, (1,), (2, 3))
    result, _ = kept(replace(result, brokers={}, live={}))
    assert roles(result) == (NO_BROKER, (), (1, 2, 3))


def test_broker_that_stops_hands_over() -> None:
    """KIP-841: it leaves the in-sync replicas, and its leaderships move while it still runs."""
    result, _ = kept(image(1, 2, 3, stopping=(1,)))
    assert roles(result) == (2, (2, 3), ())


def test_other_tasks_run_between_the_changes_of_a_topic() -> None:
    """Most partitions of a cluster may be in one topic. Each change is a step of its own."""
    steps = sum(1 for _ in plan_upkeep(image(2, 3, replicas=((1, 2, 3),) * 5), 100))
    assert steps >= 5


def test_changes_are_made_in_chunks() -> None:
    """A limit bounds each decision; the next one continues."""
    before = image(2, 3, replicas=((1, 2, 3),) * 5)
    counts = []
    while True:
        before, plan = kept(before, limit=3)  # two partitions, and the run of their new leader
        counts.append(plan.result)
        if not plan.result:
            break
    assert counts == [2, 2, 1, 0]
    assert all(roles(before, index) == (2, (2, 3), ()) for index in range(5))


@pytest.mark.parametrize(
    ("override", "default", "leader"), [(None, False, -1), (None, True, 3), ("true", False, 3), ("false", True, -1)]
)
def test_unclean_election_needs_the_setting(override: str | None, default: bool, leader: int) -> None:
    """The topic's override has precedence over the broker's default."""
    before = image(3, least=1, unclean=override)
    topic = before.topics["orders"]
    lonely = replace(topic.partitions[0], isr=ids(1))
    topic = replace(topic, partitions=(lonely,))
    before = replace(before, topics={"orders": topic}, topics_by_id={TOPIC_ID: topic})
    assert kept(before, is_unclean_allowed=default)[0].topics["orders"].partitions[0].leader == leader
    assert kept(before, is_unclean_allowed=default, elects_unclean=False)[0].topics["orders"].partitions[0].leader == -1


def register(
    before: MetadataImage,
    broker: int,
    *,
    has_kept_all: bool = False,
    **content: Any,
) -> MetadataImage:
    wanted = Registration(
        broker_id=BrokerId(broker),
        endpoints={"PLAINTEXT": ("h", 9092)},
        rack=None,
        incarnation="new",
        cluster_id="cluster",
        is_shared=True,
        content=DirectoryContent(kept_runs=(f"run-{broker}",) if has_kept_all else ("an earlier run",), **content),
    )
    return after(before, plan_registration(before, wanted))


def test_new_run_loses_its_places() -> None:
    """The new run has not fetched yet: a power failure may have taken what the old one had acknowledged."""
    result = register(image(1, 3), 2)
    assert roles(result) == (1, (1, 3), ())


@pytest.mark.parametrize(("has_kept_all", "has_log"), [(False, True), (True, True), (True, False)])
def test_the_only_replica_leads_again_and_its_losses_are_recorded(*, has_kept_all: bool, has_log: bool) -> None:
    """A partition with one replica has no other leader. The metadata tell that acknowledged records may be missing:
    the machine has lost power, or the log is gone."""
    where = TopicPartition("orders", PartitionIndex(0))
    content = {"held": {where} if has_log else (), "unread": () if has_log else {where}}
    before = image(2, 3, replicas=((1,),))
    first = register(before, 1, has_kept_all=has_kept_all, **content)
    (found,) = first.topics["orders"].partitions
    assert (found.leader, found.isr) == (1, (1,))
    assert found.leader_epoch > before.topics["orders"].partitions[0].leader_epoch
    assert found.is_recovering is not (has_kept_all and has_log)
    assert found.partition_epoch == 1


@pytest.mark.parametrize("has_kept_all", [False, True])
@pytest.mark.parametrize("back", [None, (1,)])
def test_the_only_replica_leads_again_after_a_reassignment_that_was_given_up(
    back: tuple[int, ...] | None, has_kept_all: bool
) -> None:
    """The reassignment began and ended while the broker was away, so the partition has lost its leader. If the broker
    may have lost records, the partition is recovering, as after an unclean election."""
    before = image(2, 3, replicas=((1,),))
    for replicas in ((2,), back):
        before = reassigned(before, replicas)
    assert roles(before) == (NO_BROKER, (1,), ())
    lost = before.topics["orders"].partitions[0]
    assert lost.replicas == (1,)
    (found,) = register(before, 1, has_kept_all=has_kept_all).topics["orders"].partitions
    assert (found.leader, found.isr, found.last_known_leader) == (1, (1,), NO_BROKER)
    assert found.is_recovering is not has_kept_all
    assert found.leader_epoch > lost.leader_epoch
    assert found.partition_epoch > lost.partition_epoch


def test_the_only_replica_leads_at_once_if_its_broker_is_back_before_the_cancellation() -> None:
    """The broker is elected when it is live. The cancellation keeps it as leader."""
    result = reassigned(image(2, 3, replicas=((1,),)), (2,))
    result, _ = kept(register(result, 1))
    assert roles(result) == (1, (1,), ())
    result = reassigned(result, None)
    assert roles(result) == (1, (1,), ())
    assert result.topics["orders"].partitions[0].replicas == (1,)


def test_new_run_elects_nobody() -> None:
    """The registration does not depend on the runs of other brokers, which may be over by then. Once the broker is
    live, the controller elects a leader, and depends on its run."""
    result = register(image(2, 3), 1)
    assert roles(result) == (NO_BROKER, (2, 3), ())
    assert result.topics["orders"].partitions[0].last_known_leader == 1
    result, plan = kept(result)
    assert roles(result) == (2, (2, 3), ())
    assert list(plan.reads) == ["live/2"]


@pytest.mark.parametrize(("has_kept_all", "elr", "last"), [(True, (1,), 1), (False, (), 1)])
def test_last_replica_in_sync_is_eligible_only_with_all_records(
    has_kept_all: bool, elr: tuple[int, ...], last: int
) -> None:
    """If it may lack records of its latest run, it is only the last known leader, whose election is recorded as one
    with loss. A data directory that holds the records of an earlier run proves nothing."""
    before = image(4)
    topic = before.topics["orders"]
    topic = replace(topic, partitions=(replace(topic.partitions[0], isr=ids(1)),))
    before = replace(before, topics={"orders": topic}, topics_by_id={TOPIC_ID: topic})
    result, _ = kept(before)
    assert roles(result) == (NO_BROKER, (), (1,))
    result = register(result, 1, has_kept_all=has_kept_all)
    assert roles(result) == (NO_BROKER, (), elr)
    assert result.topics["orders"].partitions[0].last_known_leader == last
    result, _ = kept(result)
    assert roles(result) == (1, (1,), ())
    assert result.topics["orders"].partitions[0].is_recovering is not has_kept_all


@pytest.mark.parametrize("others", [(2, 3), (3, 2)])
def test_last_leader_without_its_log_does_not_lead(others: tuple[int, int]) -> None:
    """All brokers were killed, and the disk of the leader is lost. It does not lead with an empty log once no replica
    is in sync: another replica that was in sync takes its place as the last known leader."""
    result = register(image(), 1, held=())
    assert roles(result) == (NO_BROKER, (2, 3), ())
    assert result.topics["orders"].partitions[0].last_known_leader == 2
    for broker in others:
        result = register(result, broker, held={TopicPartition("orders", PartitionIndex(0))})
    result, _ = kept(result)
    assert roles(result) == (2, (2,), ())
    assert result.topics["orders"].partitions[0].is_recovering


def test_replica_without_its_log_loses_all_places() -> None:
    """The partition stays without a leader: no replica is known to hold its records. The log may be missing although
    the broker stopped cleanly, and also if the partition has no other place for the broker to lose."""
    partition = replace(image().topics["orders"].partitions[0], isr=(), elr=ids(1), leader=NO_BROKER)
    for places in (
        replace(partition, last_known_leader=BrokerId(1)),
        replace(partition, elr=(), last_known_leader=BrokerId(1)),
    ):
        before = image(2, 3)
        topic = replace(before.topics["orders"], partitions=(places,))
        before = replace(before, topics={"orders": topic}, topics_by_id={TOPIC_ID: topic})
        result, _ = kept(register(before, 1, has_kept_all=True, held=(), unread=[FIRST]))
        assert roles(result) == (NO_BROKER, (), ())
        found = result.topics["orders"].partitions[0]
        assert found.last_known_leader == NO_BROKER
        assert found.partition_epoch == places.partition_epoch + 1


def test_brokers_that_all_die_before_they_have_made_a_new_log() -> None:
    """The partition is new, so nothing can be committed without them, and any of them may lead."""
    before, _ = kept(replace(image(), brokers={}, live={}))
    result, _ = kept(register(before, 1, has_kept_all=True, held=()))
    assert roles(result) == (1, (1,), (2, 3))


def test_log_that_never_reached_a_disk_does_not_end_its_partition() -> None:
    """All brokers lose power before a new log is on a disk. The last known leader leads with an empty one, because its
    directory is that of its latest run: the log has lost what each log loses, and is not on another disk."""
    result, _ = kept(replace(image(), brokers={}, live={}))
    for broker in (2, 3, 1):
        assert kept(result)[1].result == 0
        result = register(result, broker, held=(), recorded_runs=[f"run-{broker}"])
    result, _ = kept(result)
    assert roles(result) == (1, (1,), ())
    assert result.topics["orders"].partitions[0].is_recovering


@pytest.mark.parametrize(("has_kept_all", "elr"), [(True, (2,)), (False, ())])
def test_start_decides_about_the_places_of_the_earlier_run(has_kept_all: bool, elr: tuple[int, ...]) -> None:
    """A broker that starts before the controller has seen it go leaves the in-sync replicas by itself. With all records
    of its latest run it is an eligible leader replica, because fewer than required are in sync without it."""

    async def scenario() -> None:
        metadata = MemoryMetadata()
        (one, _), (two, store) = await connect(metadata, 1), await connect(metadata, 2)
        for service in (one, two):
            await service.start_broker(ENDPOINTS)
        await one.create_topics([NewTopic("orders", assignments=[(0, [2, 1])], configs={"min.insync.replicas": "2"})])
        store.inner.lose()
        again, _ = await connect(metadata, 2)
        kept_runs = (two.incarnation, "another") if has_kept_all else ("another",)
        await again.start_broker(ENDPOINTS, content=DirectoryContent(kept_runs=kept_runs))
        await again.replicas.keep_leaders()
        assert roles(again.image) == (1, (1,), elr)
        await one.close()
        await again.close()

    asyncio.run(scenario())


def test_guard_belongs_to_replicas_that_become_eligible() -> None:
    """The entry of the cluster's configs is written again, once for all partitions, and counts for the limit."""
    before = image(2, replicas=((1, 2), (2, 1), (2, 1)))
    result, plan = kept(before, limit=5)  # two partitions, the guard, the topic, and the run of the new leader
    assert [change.key for change in plan.changes][2:] == ["configs/4/"]
    assert plan.result == 2
    assert sorted(plan.reads) == ["live/2", "topics/orders"]
    assert result.configs[ResourceType.BROKER, ""] == {}
    assert roles(result) == (2, (2,), (1,))


def test_single_replica_gets_a_new_leader_epoch() -> None:
    """KIP-320: a client that was ahead of a log which lost its tail learns of it."""
    result = register(image(2, 3, replicas=((1,), (2,))), 1)
    assert [each.leader_epoch for each in result.topics["orders"].partitions] == [1, 0]


def test_stop_is_announced_once() -> None:
    """A broker that is not live with this run announces nothing."""
    before = image(1, 2, 3)
    plan = plan_stop(before, BrokerId(1), "run-1")
    assert [change.key for change in plan.changes] == ["live/1"]
    assert not plan_stop(before, BrokerId(1), "another").changes
    assert not plan_stop(image(1, stopping=(1,)), BrokerId(1), "run-1").changes
    assert not plan_stop(replace(before, metadata_version=1), BrokerId(1), "run-1").changes
