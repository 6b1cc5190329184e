"""Tests that a cordoned broker gets no new replicas (KIP-1066)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from klamm.metadata.cordoned import is_cordoned
from klamm.metadata.image import BrokerImage, MetadataImage, PartitionImage, ResourceType, TopicImage
from klamm.metadata.placement import check_assignment, place
from klamm.metadata.replicas.reassignments import Reassignment, plan_reassignments
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId

TOPIC_ID = TopicId(bytes(range(16)))


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def image(*cordoned: int, value: str = "*") -> MetadataImage:
    """Returns three brokers, some of them cordoned, and a topic with replicas on brokers 1 and 3."""
    brokers = {each: BrokerImage(each, "h", 9092, None, each) for each in ids(1, 2, 3)}
    partition = PartitionImage(PartitionIndex(0), BrokerId(1), LeaderEpoch(3), ids(1, 3), ids(1, 3))
    topic = TopicImage("orders", TOPIC_ID, (partition,))
    return MetadataImage(
        topics={"orders": topic},
        topics_by_id={TOPIC_ID: topic},
        brokers=brokers,
        registrations=brokers,
        metadata_version=2,
        configs={(ResourceType.BROKER, str(each)): {"cordoned.log.dirs": value} for each in cordoned},
    )


def reassigned(of: MetadataImage, *replicas: int) -> KafkaError | None:
    """Returns the reason against the reassignment; None if it begins."""
    planning = plan_reassignments(of, [Reassignment("orders", 0, replicas)], 100, allows_other_factor=True)
    while True:
        try:
            next(planning)
        except StopIteration as end:
            (result,) = end.value.result
            assert result is None or isinstance(result, KafkaError)
            return result


@pytest.mark.parametrize(("value", "expected"), [("*", True), ("/data", True), ("", False), (" ", False)])
def test_a_value_cordons_the_one_log_directory(value: str, expected: bool) -> None:
    """Any value but an empty one cordons the broker. A broker without a value is not cordoned."""
    assert is_cordoned(image(2, value=value), BrokerId(2)) is expected
    assert not is_cordoned(image(2, value=value), BrokerId(1))


def test_new_partitions_avoid_a_cordoned_broker() -> None:
    """Placement uses the other brokers, for leaders and for followers."""
    placed = place(image(2), range(6), 2, 0)
    assert {broker for replicas in placed for broker in replicas} == {1, 3}


def test_too_few_brokers_are_left_for_a_replication_factor() -> None:
    """A cordoned broker does not count for the replication factor."""
    with pytest.raises(KafkaError, match="because only 2 broker") as refusal:
        place(image(2), range(1), 3, 0)
    assert refusal.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_no_topic_can_be_created_if_all_brokers_are_cordoned() -> None:
    """The refusal names the reason, also with a single broker."""
    alone = replace(image(1), brokers={BrokerId(1): image().brokers[BrokerId(1)]})
    alone = replace(alone, registrations=alone.brokers)
    reason = "All brokers are currently fenced, or have all their log directories cordoned."
    with pytest.raises(KafkaError, match=reason):
        place(alone, range(1), 1, 0)


def test_a_manual_assignment_to_a_cordoned_broker_is_refused() -> None:
    """Code and message are those of Apache Kafka's trunk (KAFKA-20832)."""
    with pytest.raises(KafkaError) as refusal:
        check_assignment(image(2), [1, 2], None, 0)
    assert refusal.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    expected = "The manual partition assignment includes broker 2, but all its log directories are cordoned."
    assert refusal.value.message == expected
    assert check_assignment(image(2), [1, 3], None, 0) == (1, 3)


def test_a_reassignment_to_a_cordoned_broker_is_refused() -> None:
    """A partition can't move to a cordoned broker."""
    refusal = reassigned(image(2), 1, 2)
    assert refusal is not None
    assert refusal.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassigned(image(), 1, 2) is None


def test_a_replica_on_a_cordoned_broker_may_stay() -> None:
    """A reassignment may keep the replica that a cordoned broker has already, and may remove it."""
    assert reassigned(image(3), 3, 2) is None
    assert reassigned(image(3), 1, 2) is None
