"""Tests who leads a partition whose leader can't write."""

from __future__ import annotations

import pytest
from tests.unit.metadata.replicas.test_broker_departure import TOPIC_ID, after, ids, image, roles

from klamm.metadata.entries import live_key
from klamm.metadata.image import MetadataImage
from klamm.metadata.replicas.resignation import plan_resignation
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId


def resigned(
    before: MetadataImage, broker: int = 1, *, epoch: int = 0, topic_id: TopicId = TOPIC_ID, index: int = 0
) -> MetadataImage:
    plan = plan_resignation(before, topic_id, PartitionIndex(index), BrokerId(broker), LeaderEpoch(epoch))
    result = after(before, plan)
    assert plan.result == (result.topics["orders"].partitions[0] if plan.changes else None)
    return result


def test_another_in_sync_replica_leads() -> None:
    """The broker leaves the in-sync replicas, and is no eligible leader replica, also with too few in sync. The run of
    the new leader is compared."""
    result = resigned(image(1, 2, 3))
    assert roles(result) == (2, (2, 3), ())
    assert result.topics["orders"].partitions[0].leader_epoch == 1
    result = resigned(image(1, 3, replicas=((1, 3),)))
    assert roles(result) == (3, (3,), ())
    plan = plan_resignation(image(1, 2, 3), TOPIC_ID, PartitionIndex(0), BrokerId(1), LeaderEpoch(0))
    assert list(plan.reads) == [live_key(BrokerId(2))]


@pytest.mark.parametrize("before", [image(1), image(1, 2, 3, stopping=ids(2, 3)), image(1, replicas=((1,),))])
def test_without_another_replica_the_leader_stays(before: MetadataImage) -> None:
    """No other replica is in sync and may lead."""
    assert resigned(before) is not None
    assert roles(resigned(before))[:2] == roles(before)[:2]


@pytest.mark.parametrize(
    "wrong", [{"broker": 2}, {"epoch": 1}, {"topic_id": TopicId(bytes(16))}, {"index": 1}], ids=str
)
def test_a_leader_that_is_none_any_more_changes_nothing(wrong: dict[str, int]) -> None:
    """Another broker leads by now, or the topic or the partition does not exist any more."""
    before = image(1, 2, 3)
    assert roles(resigned(before, **wrong)) == roles(before)  # type: ignore[arg-type]
