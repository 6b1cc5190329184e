"""Tests elections that a client requests (ElectLeaders)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from klamm.metadata.entries import partition_key
from klamm.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from klamm.metadata.metadata_store import Plan
from klamm.metadata.replicas.elections import ElectionOutcome, plan_elections
from klamm.metadata.replicas.partition_change import Election
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicPartition

TOPIC_ID = TopicId(bytes(range(16)))
PREFERRED, UNCLEAN = Election.PREFERRED, Election.UNCLEAN
TWO_IN_SYNC = {"min.insync.replicas": "2"}


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def image(*live: int) -> MetadataImage:
    """Returns a topic with these partitions: led by its second replica, by a broker that may be away, without leader,
    and with one replica."""

    def partition(index: int, leader: int, replicas: tuple[BrokerId, ...], isr: tuple[BrokerId, ...]) -> PartitionImage:
        return PartitionImage(PartitionIndex(index), BrokerId(leader), LeaderEpoch(3), replicas, isr)

    partitions = (
        partition(0, 2, ids(1, 2, 3), ids(1, 2, 3)),
        partition(1, 2, ids(1, 2, 3), ids(2, 3)),
        partition(2, -1, ids(1, 2, 3), ids()),
        partition(3, 1, ids(1), ids(1)),
    )
    topic = TopicImage("orders", TOPIC_ID, partitions)
    brokers = {each: BrokerImage(each, "h", 9092, None, each) for each in ids(*live)}
    return MetadataImage(topics={"orders": topic}, topics_by_id={TOPIC_ID: topic}, brokers=brokers)


def elect(of: MetadataImage, election: Election, *indexes: int, topic: str = "orders") -> Plan[list[ElectionOutcome]]:
    planning = plan_elections(of, [TopicPartition(topic, PartitionIndex(each)) for each in indexes], election, 100)
    while True:
        try:
            next(planning)
        except StopIteration as end:
            plan: Plan[list[ElectionOutcome]] = end.value
            return plan


@pytest.mark.parametrize(
    ("live", "election", "codes"),
    [
        ((1, 2, 3), PREFERRED, ["NONE", "PREFERRED_LEADER_NOT_AVAILABLE", "PREFERRED_LEADER_NOT_AVAILABLE"]),
        ((2, 3), PREFERRED, ["PREFERRED_LEADER_NOT_AVAILABLE"] * 3),
        ((1, 2, 3), UNCLEAN, ["ELECTION_NOT_NEEDED", "ELECTION_NOT_NEEDED", "NONE"]),
        ((), UNCLEAN, ["ELIGIBLE_LEADERS_NOT_AVAILABLE"] * 3),
    ],
)
def test_outcomes(live: tuple[int, ...], election: Election, codes: list[str]) -> None:
    """A preferred leader must be live and in sync; an unclean election takes any live replica where no one leads."""
    plan = elect(image(*live), election, 0, 1, 2)
    assert [code.name for code, _ in plan.result] == codes
    changed = [change for change in plan.changes if change.key.startswith("partitions/")]
    assert len(changed) == codes.count("NONE")
    assert "live/1" in plan.reads or "NONE" not in codes


def test_partition_with_one_replica_has_no_other_leader() -> None:
    """It needs no election while its broker is live, and none can help while it is away."""
    assert elect(image(1), PREFERRED, 3).result[0][0] is ErrorCode.ELECTION_NOT_NEEDED
    assert elect(image(2), UNCLEAN, 3).result[0][0] is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


def test_unknown_partitions() -> None:
    """The messages are Kafka's."""
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(image(1), PREFERRED, 9).result == [(unknown, "No such partition as orders-9")]
    assert elect(image(1), PREFERRED, 0, topic="none").result == [(unknown, "No such topic as none")]


def test_partition_that_is_named_twice_changes_once() -> None:
    """A transaction has each key once."""
    plan = elect(image(1, 2, 3), PREFERRED, 0, 0)
    assert [code for code, _ in plan.result] == [ErrorCode.NONE, ErrorCode.NONE]
    assert len(plan.changes) == 1


def test_unclean_election_prefers_an_eligible_replica() -> None:
    """The leader has just gone, and the controller has not decided about its partition yet. A request for an unclean
    election loses no records while a replica that has all of them is live."""
    of = image(1, 3)
    topic = of.topics["orders"]
    led = replace(topic.partitions[1], isr=ids(2), elr=ids(3))
    of = replace(of, topics={"orders": replace(topic, partitions=(topic.partitions[0], led), configs=TWO_IN_SYNC)})
    plan = elect(of, UNCLEAN, 1)
    assert [code for code, _ in plan.result] == [ErrorCode.NONE]
    changes = {change.key: change.value for change in plan.changes}
    elected = json.loads(changes[partition_key(TOPIC_ID, PartitionIndex(1))] or b"")
    assert (elected["leader"], elected["isr"], elected["elr"]) == (3, [3], [2])
    assert "recovering" not in elected
    assert "live/3" in plan.reads
