"""Tests the results of requests to create and delete topics and to add partitions."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from tests.support.steps import at_once

from klamm.metadata.entries import apply
from klamm.metadata.image import EMPTY_IMAGE, NO_EPOCH, BrokerImage, MetadataImage, TopicImage
from klamm.metadata.metadata_store import Plan, Versioned
from klamm.metadata.metadata_version import METADATA_VERSION
from klamm.metadata.topic_changes import (
    NewPartitions,
    NewTopic,
    TopicRules,
    plan_partition_creation,
    plan_topic_creation,
    plan_topic_deletion,
)
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, TopicId

planned_topic_creation = at_once(plan_topic_creation)
planned_topic_deletion = at_once(plan_topic_deletion)
planned_partition_creation = at_once(plan_partition_creation)


def rules(check_configs: Callable[[Mapping[str, str]], None] = lambda configs: None) -> TopicRules:
    """Returns rules with three partitions, one replica, and ids that count up."""
    numbers = count(1)
    return TopicRules(
        partitions=3,
        replication_factor=1,
        check_configs=check_configs,
        new_topic_id=lambda: TopicId(next(numbers).to_bytes(16, "big")),
        is_shared=True,
    )


def cluster(*broker_ids: int) -> MetadataImage:
    """Returns an image with the given brokers and no topics."""
    brokers = {BrokerId(number): BrokerImage(BrokerId(number), "h", 9092, None, 1) for number in broker_ids}
    return MetadataImage(brokers=brokers, registrations=brokers, metadata_version=METADATA_VERSION)


def with_stopped(image: MetadataImage, broker_id: int) -> MetadataImage:
    """Returns the image with a broker that is registered and not live."""
    stopped = BrokerImage(BrokerId(broker_id), "h", 9092, None, NO_EPOCH)
    return replace(image, registrations={**image.registrations, stopped.id: stopped})


def after(image: MetadataImage, plan: Plan[Any]) -> MetadataImage:
    """Returns the image after the plan is written."""
    revision = image.revision + 1
    entries = {
        change.key: None if change.value is None else Versioned(change.value, revision, revision)
        for change in plan.changes
    }
    return apply(image, revision, entries)


def with_topics(image: MetadataImage, *topics: NewTopic) -> MetadataImage:
    """Returns the image with the given topics created."""
    return after(image, planned_topic_creation(image, topics, rules()))


def refusal(image: MetadataImage, topic: NewTopic, topic_rules: TopicRules | None = None) -> KafkaError:
    """Returns the error for a topic that can't be created, and checks that the plan has no changes."""
    plan = planned_topic_creation(image, [topic], topic_rules or rules())
    result = plan.result[topic.name]
    assert isinstance(result, KafkaError)
    assert not plan.changes
    return result


def test_minus_one_takes_the_brokers_defaults() -> None:
    """The value -1 for partitions and replication factor means the broker's defaults."""
    image = with_topics(cluster(1), NewTopic("t"))
    topic = image.topics["t"]
    assert [partition.index for partition in topic.partitions] == [0, 1, 2]
    assert all((p.leader, p.leader_epoch, p.replicas, p.isr) == (1, 0, (1,), (1,)) for p in topic.partitions)
    assert image.topics_by_id[topic.topic_id] is topic


def test_configs_are_checked_and_kept() -> None:
    """A topic with invalid overrides is not created, but the other topics of the request are."""

    def check(configs: Mapping[str, str]) -> None:
        if "bad" in configs:
            raise KafkaError(ErrorCode.INVALID_CONFIG, "bad is bad")

    wanted_changes = [NewTopic("a", configs={"bad": "1"}), NewTopic("b", configs={"retention.ms": "5"})]
    plan = planned_topic_creation(cluster(1), wanted_changes, rules(check))
    assert isinstance(plan.result["a"], KafkaError)
    image = after(cluster(1), plan)
    assert image.topics.keys() == {"b"}
    assert image.config_overrides(2, "b") == {"retention.ms": "5"}


@pytest.mark.parametrize(
    ("wanted_change", "code", "message"),
    [
        (NewTopic("a b"), ErrorCode.INVALID_TOPIC_EXCEPTION, None),
        (NewTopic("there"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'there' already exists."),
        (NewTopic("a_b"), ErrorCode.INVALID_TOPIC_EXCEPTION, "Topic 'a_b' collides with existing topic: a.b"),
        (NewTopic("a.b"), ErrorCode.TOPIC_ALREADY_EXISTS, "Topic 'a.b' already exists."),
        (
            NewTopic("t", partitions=0),
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        ),
        (NewTopic("t", partitions=-2), ErrorCode.INVALID_PARTITIONS, None),
        (
            NewTopic("t", replication_factor=0),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        ),
        (
            NewTopic("t", replication_factor=3),
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Unable to replicate the partition 3 time(s): The target replication factor of 3 cannot be reached because "
            "only 1 broker(s) are registered or some brokers have all their log directories cordoned.",
        ),
        (
            NewTopic("t", configs={"a": None, "b": "1", "c": None}),
            ErrorCode.INVALID_CONFIG,
            "Null value not supported for topic configs: a,c",
        ),
        (
            NewTopic("t", partitions=1, assignments=[(0, [1])]),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            NewTopic("t", replication_factor=1, assignments=[(0, [1])]),
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but replication factor was not set to -1.",
        ),
        (
            NewTopic("t", assignments=[(0, [1]), (0, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            NewTopic("t", assignments=[(0, [1]), (2, [1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            NewTopic("t", assignments=[(0, [])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            NewTopic("t", assignments=[(0, [1, 1])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            NewTopic("t", assignments=[(0, [7])]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused_as_kafka_does(
    wanted_change: NewTopic, code: ErrorCode, message: str | None
) -> None:
    """An impossible topic is refused with the code and message of `ReplicationControlManager`."""
    image = with_topics(cluster(1), NewTopic("there"), NewTopic("a.b"))
    error = refusal(image, wanted_change)
    assert error.code == code
    if message is not None:
        assert error.message == message


def test_partitions_of_a_manual_assignment_have_one_replication_factor() -> None:
    """In a manual assignment, a partition with a different number of replicas than the first is refused."""
    error = refusal(cluster(1, 2), NewTopic("t", assignments=[(0, [1, 2]), (1, [2])]))
    assert error.message == (
        "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with "
        "previous partitions, which have 2 replica(s)."
    )


def test_a_manual_assignment_is_kept_in_its_order() -> None:
    """A manual assignment keeps the order of the replicas, and the first replica is the leader."""
    image = with_topics(cluster(1, 2, 3), NewTopic("t", assignments=[(1, [3, 1]), (0, [2, 3])]))
    assert [p.replicas for p in image.topics["t"].partitions] == [(2, 3), (3, 1)]
    assert [p.leader for p in image.topics["t"].partitions] == [2, 3]


def test_without_brokers_nothing_can_be_placed() -> None:
    """A topic can't be created without brokers."""
    error = refusal(EMPTY_IMAGE, NewTopic("t"))
    assert error.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_leaders_are_spread_over_the_brokers() -> None:
    """Each broker leads the same number of partitions, and no partition has a broker twice."""
    image = with_topics(cluster(1, 2, 3), NewTopic("t", partitions=6, replication_factor=2))
    partitions = image.topics["t"].partitions
    assert sorted(partition.leader for partition in partitions) == [1, 1, 2, 2, 3, 3]
    assert all(len(set(partition.replicas)) == 2 for partition in partitions)


def test_names_of_one_request_may_not_collide_either() -> None:
    """If two names of one request differ only by '.' and '_', the second is refused."""
    result = planned_topic_creation(cluster(1), [NewTopic("a.b"), NewTopic("a_b")], rules()).result
    assert isinstance(result["a.b"], TopicImage)
    assert isinstance(result["a_b"], KafkaError)


@pytest.mark.parametrize(
    "wanted_changes",
    [
        [NewTopic("t", partitions=10_001)],
        [NewTopic("t", partitions=2**31 - 1)],
        [NewTopic("a", partitions=9_998), NewTopic("b")],
        [NewTopic("t", assignments=[(0, [1])] * 10_001)],
    ],
)
def test_a_request_for_too_many_partitions_is_refused_as_a_whole(wanted_changes: list[NewTopic]) -> None:
    """A request with more than 10,000 partitions, the limit of one transaction, is refused as a whole before
    placement."""
    with pytest.raises(KafkaError, match="Excessively large number of partitions per request") as caught:
        planned_topic_creation(cluster(1), wanted_changes, rules())
    assert caught.value.code == ErrorCode.POLICY_VIOLATION


def test_a_deleted_topic_takes_all_of_it_along() -> None:
    """Deleting a topic removes every key that its creation wrote."""
    topic = NewTopic("t", configs={"retention.ms": "1"})
    image = with_topics(cluster(1), topic)
    plan = planned_topic_deletion(image, [image.topics["t"].topic_id])
    assert plan.result == {image.topics["t"].topic_id: None}
    created = planned_topic_creation(cluster(1), [topic], rules())
    assert {change.key for change in plan.changes} == {change.key for change in created.changes}
    gone = after(image, plan)
    assert (gone.topics, gone.topics_by_id, gone.names_by_collision_key) == ({}, {}, {})


def test_an_unknown_topic_id_is_said_to_be_unknown() -> None:
    """An unknown topic id gets UNKNOWN_TOPIC_ID, and the other topics of the request are deleted."""
    image = with_topics(cluster(1), NewTopic("t"))
    known, unknown = image.topics["t"].topic_id, TopicId(b"?" * 16)
    result = planned_topic_deletion(image, [unknown, known]).result
    assert result[known] is None
    error = result[unknown]
    assert error is not None
    assert error.code == ErrorCode.UNKNOWN_TOPIC_ID


def test_new_partitions_follow_the_old_ones() -> None:
    """New partitions are added after the existing ones, which stay unchanged, and the rest of the image is shared."""
    image = with_topics(cluster(1), NewTopic("t"), NewTopic("other"))
    wider = after(image, planned_partition_creation(image, [NewPartitions(topic="t", count=5)]))
    assert len(wider.topics["t"].partitions) == 5
    assert wider.topics["t"].partitions[:3] == image.topics["t"].partitions
    assert wider.topics["t"].topic_id == image.topics["t"].topic_id
    assert wider.topics["other"] is image.topics["other"]


@pytest.mark.parametrize(
    ("wanted_change", "code", "message"),
    [
        (NewPartitions(topic="?", count=5), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None),
        (NewPartitions(topic="t", count=3), ErrorCode.INVALID_PARTITIONS, "Topic already has 3 partition(s)."),
        (
            NewPartitions(topic="t", count=2),
            ErrorCode.INVALID_PARTITIONS,
            "The topic t currently has 3 partition(s); 2 would not be an increase.",
        ),
        (NewPartitions(topic="t", count=-1), ErrorCode.INVALID_PARTITIONS, None),
        (
            NewPartitions(topic="t", count=5, assignments=[[1]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            NewPartitions(topic="t", count=4, assignments=[[9]]),
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (NewPartitions(topic="t", count=2**31 - 1), ErrorCode.POLICY_VIOLATION, None),
    ],
)
def test_partitions_that_cannot_be_are_refused_as_kafka_does(
    wanted_change: NewPartitions, code: ErrorCode, message: str | None
) -> None:
    """Impossible partitions are refused with the code and message of `ReplicationControlManager`; a huge count
    allocates no memory."""
    image = with_topics(cluster(1), NewTopic("t"))
    plan = planned_partition_creation(image, [wanted_change])
    error = plan.result[wanted_change.topic]
    assert error is not None
    assert error.code == code
    assert error.message == message or message is None
    assert not plan.changes


def test_several_topics_together_are_bounded_too() -> None:
    """The limit applies to all topics of a request together: the topic that exceeds it is refused, and the others are
    changed."""
    image = with_topics(cluster(1), NewTopic("a"), NewTopic("b"))
    wanted_changes = [NewPartitions(topic="a", count=9_000), NewPartitions(topic="b", count=2_000)]
    plan = planned_partition_creation(image, wanted_changes)
    assert plan.result["a"] is None
    error = plan.result["b"]
    assert error is not None
    assert error.code == ErrorCode.POLICY_VIOLATION
    assert len(plan.changes) == 8_997 + 1  # the partitions, and the topic that counts them


def test_what_was_refused_is_no_cycle() -> None:
    """A refused change leaves no reference cycle; an error with a traceback would refer to the plan that contains the
    error."""
    image = with_topics(cluster(1), NewTopic("t"))
    while gc.collect():
        """What earlier tests left may hold more garbage, which only the next collection finds."""
    gc.disable()
    try:
        planned_topic_creation(image, [NewTopic("t")], rules())
        planned_partition_creation(image, [NewPartitions(topic="unknown", count=4)])
        assert not gc.collect()
    finally:
        gc.enable()


def test_new_partitions_go_to_live_brokers_only() -> None:
    """The placement leaves out brokers that are not live, and spreads leaders evenly over the live ones."""
    image = with_topics(with_stopped(cluster(1, 2, 3), 4), NewTopic("t", partitions=9))
    leaders = [partition.leader for partition in image.topics["t"].partitions]
    assert {broker: leaders.count(broker) for broker in set(leaders)} == {1: 3, 2: 3, 3: 3}
    assert leaders[:3] == leaders[3:6] == leaders[6:]


def test_broker_that_is_away_gets_a_replica_only_if_it_is_needed() -> None:
    """As in Kafka, a topic can be created while a broker is away: the replica there is not in sync at first."""
    image = with_topics(with_stopped(cluster(1, 2), 3), NewTopic("t", partitions=4, replication_factor=2))
    assert {frozenset(partition.replicas) for partition in image.topics["t"].partitions} == {frozenset((1, 2))}
    image = with_topics(with_stopped(cluster(1, 2), 3), NewTopic("t", partitions=4, replication_factor=3))
    assert all(len(partition.replicas) == 3 for partition in image.topics["t"].partitions)
    assert all(sorted(partition.isr) == [1, 2] for partition in image.topics["t"].partitions)
    error = refusal(with_stopped(cluster(1), 2), NewTopic("u", partitions=1, replication_factor=3))
    assert error.code == ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 2 broker(s) are registered" in str(error)


def test_replicas_lie_on_different_racks() -> None:
    """The replicas of a partition lie on as many racks as there are, and leaders are spread over all brokers."""
    image = cluster(1, 2, 3, 4, 5, 6)
    racks = {1: "a", 2: "a", 3: "a", 4: "b", 5: "b", 6: "c"}
    brokers = {each: broker._replace(rack=racks[each]) for each, broker in image.brokers.items()}
    image = replace(image, brokers=brokers, registrations=brokers)
    image = with_topics(image, NewTopic("t", partitions=60, replication_factor=3))
    partitions = image.topics["t"].partitions
    assert all({racks[each] for each in partition.replicas} == {"a", "b", "c"} for partition in partitions)
    leaders = [partition.leader for partition in partitions]
    assert {leaders.count(broker) for broker in brokers} == {10}


def test_partitions_of_one_leader_have_different_followers() -> None:
    """So that the work of a broker that has gone falls on several others."""
    image = with_topics(cluster(1, 2, 3, 4), NewTopic("t", partitions=24, replication_factor=2))
    followers = {partition.replicas[1] for partition in image.topics["t"].partitions if partition.leader == 1}
    assert followers == {2, 3, 4}


def test_new_members_must_be_live() -> None:
    """The creation of a partition with several replicas depends on the runs of all in-sync replicas. With one replica
    it does not: the partition waits for its broker in any case."""
    assigned = NewTopic("t", assignments=[(0, [1, 2]), (1, [1, 4])])
    image = with_stopped(cluster(1, 2, 3), 4)
    plan = planned_topic_creation(image, [assigned], rules())
    assert plan.reads == ["live/1", "live/2"]
    wider = NewPartitions(topic="t", count=3, assignments=[[2, 3]])
    assert planned_partition_creation(after(image, plan), [wider]).reads == ["live/2", "live/3"]
    assert planned_topic_creation(image, [NewTopic("one")], rules()).reads == []


def test_an_assignment_needs_registered_brokers_and_a_live_one() -> None:
    """As in Kafka, a manual assignment may name brokers that are not live, which are then not in sync, if one is."""
    image = with_topics(with_stopped(cluster(1), 2), NewTopic("t", assignments=[(0, [2, 1])]))
    (partition,) = image.topics["t"].partitions
    assert (partition.leader, partition.replicas, partition.isr) == (1, (2, 1), (1,))
    error = refusal(image, NewTopic("u", assignments=[(0, [1]), (1, [2])]))
    assert error.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert error.message == (
        "All brokers specified in the manual partition assignment for partition 1 are fenced or in controlled shutdown."
    )
    one = with_topics(with_stopped(cluster(1), 2), NewTopic("v", partitions=1))
    wider = planned_partition_creation(one, [NewPartitions(topic="v", count=2, assignments=[[2]])])
    assert wider.result["v"] is not None
    assert "partition 1 are fenced" in str(wider.result["v"])


def test_several_replicas_need_several_brokers_that_know_them() -> None:
    """A single broker, and a cluster of an earlier metadata version, refuse a replication factor above 1, placed or
    assigned. The message tells what to do."""
    single, early = replace(rules(), is_shared=False), replace(cluster(1, 2), metadata_version=1)
    for topic, code in (
        (NewTopic("t", partitions=1, replication_factor=2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic("t", assignments=[(0, [1, 2])]), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ):
        assert refusal(cluster(1, 2), topic, single).code == code
        error = refusal(early, topic, rules())
        assert error.code == code
        assert "version 2: `klamm cluster metadata version --raise`" in str(error)
