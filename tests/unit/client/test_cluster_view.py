"""What a client knows of leaders never becomes older."""

from __future__ import annotations

import pytest

from klamm.client.cluster_view import ClusterView, PartitionLeader
from klamm.client.config import ClientConfig
from klamm.protocol.schema.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicPartition

ID = bytes(range(16))
OTHER_ID = bytes(range(1, 17))
NO_ID = bytes(16)


def tp(partition: int) -> TopicPartition:
    return TopicPartition("t", PartitionIndex(partition))


def leader(broker: int, epoch: int) -> PartitionLeader:
    return PartitionLeader(BrokerId(broker), LeaderEpoch(epoch))


@pytest.fixture
def view() -> ClusterView:
    return ClusterView(ClientConfig((("127.0.0.1", 1),)))


def learn(view: ClusterView, *leaders: tuple[int, int], topic_id: bytes = ID, brokers: int = 3) -> None:
    """Applies metadata with the leader and the leader epoch of each partition."""
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=broker, leader_epoch=epoch)
        for index, (broker, epoch) in enumerate(leaders)
    ]
    known = [MetadataResponseBroker(node_id=each, host="127.0.0.1", port=9000 + each) for each in range(1, brokers + 1)]
    topic = MetadataResponseTopic(name="t", topic_id=topic_id, partitions=partitions)
    assert not view.apply(MetadataResponse(brokers=known, topics=[topic]), ["t"])


def test_leaders_of_older_epochs_are_ignored(view: ClusterView) -> None:
    """Metadata from a broker that has not heard of an election leave the newer leader in place, partition by partition;
    metadata of the same epoch are taken."""
    learn(view, (1, 5), (1, 5))
    learn(view, (2, 6), (1, 5))
    learn(view, (1, 5), (3, 6), (2, 0))
    assert [view.leader_of(tp(index)) for index in range(3)] == [leader(2, 6), leader(3, 6), leader(2, 0)]
    learn(view, (3, 6), (1, 7), (2, 0))
    assert [view.leader_of(tp(index)) for index in range(2)] == [leader(3, 6), leader(1, 7)]


@pytest.mark.parametrize("topic_id", [OTHER_ID, NO_ID])
def test_epochs_of_another_topic_begin_anew(view: ClusterView, topic_id: bytes) -> None:
    """A recreated topic has other leader epochs; without topic ids it can't be told from the topic before."""
    learn(view, (1, 5), topic_id=NO_ID if topic_id == NO_ID else ID)
    learn(view, (2, 0), topic_id=topic_id)
    assert view.leader_of(tp(0)) == leader(2, 0)


def test_a_missing_topic_is_forgotten(view: ClusterView) -> None:
    """A topic that the cluster does not know any more has no leaders, and no epochs to compare with."""
    learn(view, (1, 5))
    view.apply(MetadataResponse(topics=[MetadataResponseTopic(name="t", error_code=3)]), ["t"])
    assert not view.has(tp(0))
    assert view.epoch_of(tp(0)) == -1
    learn(view, (2, 0))
    assert view.leader_of(tp(0)) == leader(2, 0)


def test_an_expected_epoch_ends_the_older_leader(view: ClusterView) -> None:
    """A partition has no leader until the metadata tell one of the expected epoch or a later one."""
    learn(view, (1, 5), (1, 5))
    view.expect_epoch(tp(0), LeaderEpoch(6))
    view.expect_epoch(tp(1), LeaderEpoch(5))
    view.expect_epoch(tp(7), LeaderEpoch(5))
    assert (view.leader_of(tp(0)), view.epoch_of(tp(0))) == (None, 6)
    assert view.leader_of(tp(1)) == leader(1, 5)
    learn(view, (1, 5), (1, 5))
    assert view.leader_of(tp(0)) is None
    learn(view, (2, 6), (1, 5))
    assert view.leader_of(tp(0)) == leader(2, 6)


def test_fewer_partitions_are_taken(view: ClusterView) -> None:
    """A broker that knows fewer partitions describes only these."""
    learn(view, (1, 5), (1, 5))
    learn(view, (1, 4))
    assert view.leader_of(tp(0)) == leader(1, 5)
    assert not view.has(tp(1))
