"""Tests how reassignments begin and are cancelled (AlterPartitionReassignments)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from klamm.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from klamm.metadata.metadata_store import Plan
from klamm.metadata.replicas.reassignments import Reassignment, plan_reassignments
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId

TOPIC_ID = TopicId(bytes(range(16)))


def ids(*numbers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, numbers))


def image(replicas: Sequence[int] = (1, 2), isr: Sequence[int] = (1, 2), **fields: Any) -> MetadataImage:
    partition = PartitionImage(PartitionIndex(0), BrokerId(1), LeaderEpoch(3), ids(*replicas), ids(*isr), **fields)
    topic = TopicImage("orders", TOPIC_ID, (partition,))
    brokers = {each: BrokerImage(each, "h", 9092, None, each) for each in ids(1, 2, 3, 4)}
    return MetadataImage(
        topics={"orders": topic},
        topics_by_id={TOPIC_ID: topic},
        brokers=brokers,
        registrations=brokers,
        metadata_version=2,
    )


def reassign(
    of: MetadataImage, replicas: Sequence[int] | None, *, topic: str = "orders", index: int = 0, factor: bool = True
) -> Plan[list[KafkaError | None]]:
    planning = plan_reassignments(of, [Reassignment(topic, index, replicas)], 100, allows_other_factor=factor)
    while True:
        try:
            next(planning)
        except StopIteration as end:
            plan: Plan[list[KafkaError | None]] = end.value
            return plan


def written(plan: Plan[Any]) -> tuple[list[int], list[int], list[int], list[int], int]:
    """Returns replicas, in-sync replicas, added and removed ones and the leader of the only change."""
    assert plan.result == [None]
    (change,) = plan.changes
    assert change.value is not None
    body = json.loads(change.value)
    return body["replicas"], body["isr"], body.get("adding", []), body.get("removing", []), body["leader"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ([3, 4], ([3, 4, 1, 2], [1, 2], [3, 4], [1, 2], 1)),
        ([2, 3], ([2, 3, 1], [2, 1], [3], [1], 1)),
        ([1, 2, 3], ([1, 2, 3], [1, 2], [3], [], 1)),
        ([2, 1], ([2, 1], [2, 1], [], [], 1)),
        ([2], ([2], [2], [], [], 2)),
    ],
)
def test_added_replicas_follow_before_others_are_removed(wanted: list[int], expected: Any) -> None:
    """The target comes first, then what is removed later. Without added replicas the reassignment ends at once."""
    assert written(reassign(image(), wanted)) == expected


def test_fewer_replicas_wait_until_those_that_remain_are_in_sync() -> None:
    """A replica that is in sync is not removed in favour of one that lags: only the leader would have all records."""
    of = image((1, 2, 3), (1, 2))
    assert written(reassign(of, [1, 3])) == ([1, 3, 2], [1, 2], [], [2], 1)
    assert written(reassign(of, [1, 2])) == ([1, 2], [1, 2], [], [], 1)


def test_new_leader_must_be_live() -> None:
    """The decision depends on the run of the broker that becomes the leader."""
    assert reassign(image(), [2]).reads == ["live/2"]
    assert reassign(image(), [3, 4]).reads == []


def test_present_replicas_change_nothing() -> None:
    """Nothing is written."""
    assert not reassign(image(), [1, 2]).changes


def test_another_target_replaces_the_first() -> None:
    """The replica that was about to be added is removed."""
    of = image((3, 1, 2), adding=ids(3), removing=ids(1))
    assert written(reassign(of, [4, 2])) == ([4, 2, 3, 1], [2, 1], [4], [3, 1], 1)


def test_cancellation_returns_to_the_replicas_of_before() -> None:
    """A replica that was added and is in sync already leaves, too."""
    of = image((3, 1, 2), (3, 1, 2), adding=ids(3), removing=ids(1))
    assert written(reassign(of, None)) == ([1, 2], [1, 2], [], [], 1)


@pytest.mark.parametrize(
    ("wanted", "options", "code"),
    [
        ([1], {"topic": "none"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ([1], {"index": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, {}, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ([], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([9], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1, 1], {}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ([1], {"factor": False}, ErrorCode.INVALID_REPLICATION_FACTOR),
    ],
)
def test_refusals(wanted: list[int] | None, options: dict[str, Any], code: ErrorCode) -> None:
    """Each partition has its own error."""
    plan = reassign(image(), wanted, **options)
    (error,) = plan.result
    assert error is not None
    assert error.code is code
    assert not plan.changes


def test_cluster_of_an_earlier_version_reassigns_nothing() -> None:
    """Its brokers don't know the fields. The message tells what to do."""
    (error,) = reassign(replace(image(), metadata_version=1), [3, 4]).result
    assert error is not None
    assert "version 2: `klamm cluster metadata version --raise`" in str(error)
