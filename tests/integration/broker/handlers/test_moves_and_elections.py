"""Requests that move partitions or their leaders between the brokers of a cluster."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.wire import Wire

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.schema.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from klamm.protocol.schema.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from klamm.protocol.schema.elect_leaders_response import ElectLeadersResponse
from klamm.protocol.schema.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from klamm.protocol.schema.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from klamm.testing import Cluster

TOPIC = "orders"
PREFERRED, UNCLEAN = 0, 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Runs two brokers, with a topic that has a partition on each."""
    with Cluster(brokers=2) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, num_partitions=2, replica_assignment=[[1], [2]])])[TOPIC].result()
        yield cluster


def _reassign(
    cluster: Cluster, replicas: list[int] | None, *, allows_other_factor: bool = True
) -> tuple[ErrorCode, str | None]:
    """Asks for other replicas of the first partition; None cancels a reassignment in progress."""
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=TOPIC, partitions=[partition])],
        allow_replication_factor_change=allows_other_factor,
    )
    with Wire(cluster.address_of(1)) as wire:
        response = wire.call(AlterPartitionReassignmentsResponse, 1, request)
    (answer,) = response.responses[0].partitions
    return ErrorCode(answer.error_code), answer.error_message


def _moving(cluster: Cluster) -> list[tuple[int, list[int], list[int], list[int]]]:
    """Returns index, replicas, added and removed replicas of each reassignment in progress."""
    with Wire(cluster.address_of(1)) as wire:
        response = wire.call(ListPartitionReassignmentsResponse, 0, ListPartitionReassignmentsRequest(topics=None))
    return [
        (each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in response.topics
        for each in topic.partitions
    ]


def _replicas(cluster: Cluster) -> tuple[list[int], int]:
    """Returns the replicas and the leader of the first partition."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    partition = admin.list_topics(TOPIC, timeout=30).topics[TOPIC].partitions[0]
    return partition.replicas, partition.leader


def _wait_for_replicas(cluster: Cluster, replicas: list[int]) -> None:
    deadline = time.monotonic() + 30
    while _moving(cluster) or _replicas(cluster) != (replicas, replicas[0]):
        assert time.monotonic() < deadline, (_moving(cluster), _replicas(cluster))
        time.sleep(0.02)


def test_a_partition_moves_with_its_records(cluster: Cluster) -> None:
    """The new replica copies the log, then it leads and the old one is removed. The number of replicas may change."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in range(100):
        producer.produce(TOPIC, str(number), partition=0)
    assert producer.flush(30) == 0
    assert _reassign(cluster, [1]) == (ErrorCode.NONE, None)
    for replicas in ([2], [2, 1], [1, 2], [1]):
        assert _reassign(cluster, replicas) == (ErrorCode.NONE, None)
        if replicas == [1, 2]:  # another order moves no leader
            assert _elect(cluster, PREFERRED, 0) == {0: ErrorCode.NONE}
        _wait_for_replicas(cluster, replicas)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    values: list[bytes | None] = []
    deadline = time.monotonic() + 30
    while len(values) < 100 and time.monotonic() < deadline:
        values += [message.value() for message in consumer.consume(100, 0.5) if message.error() is None]
    assert values == [b"%d" % number for number in range(100)]
    consumer.close()


def test_reassignments_are_refused_as_in_kafka(cluster: Cluster) -> None:
    """Unknown brokers, another number of replicas where it is not allowed, and a cancellation of nothing."""
    code, message = _reassign(cluster, [1, 2], allows_other_factor=False)
    assert code is ErrorCode.INVALID_REPLICATION_FACTOR
    assert message == "The replication factor is changed from 1 to 2"
    unknown = "The manual partition assignment includes broker 9, but no such broker is registered."
    assert _reassign(cluster, [9]) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, unknown)
    twice = "The manual partition assignment includes the broker 2 more than once."
    assert _reassign(cluster, [2, 2]) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, twice)
    assert _reassign(cluster, None)[0] is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS


def test_a_reassignment_is_listed_and_cancelled(cluster: Cluster) -> None:
    """A replica on a broker that is away does not get in sync: the reassignment goes on until it is cancelled."""
    cluster.kill(2)
    try:
        assert _reassign(cluster, [2]) == (ErrorCode.NONE, None)
        assert _moving(cluster) == [(0, [2, 1], [2], [1])]
        assert _reassign(cluster, None) == (ErrorCode.NONE, None)
        assert _moving(cluster) == []
        assert _replicas(cluster) == ([1], 1)
    finally:
        cluster.restart(2)


def _elect(cluster: Cluster, election_type: int, *indexes: int) -> dict[int, ErrorCode]:
    wanted = [TopicPartitions(topic=TOPIC, partitions=list(indexes))] if indexes else None
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=wanted)
    with Wire(cluster.address_of(1)) as wire:
        results = wire.call(ElectLeadersResponse, 2, request).replica_election_results
    (result,) = [each for each in results if each.topic == TOPIC]
    return {each.partition_id: ErrorCode(each.error_code) for each in result.partition_result}


def test_an_election_while_a_broker_is_away(cluster: Cluster) -> None:
    """A partition that is led needs no election. The partition of a broker that is away has no replica to elect, and is
    named also in the answer to a request for all partitions."""
    needless = ErrorCode.ELECTION_NOT_NEEDED
    assert _elect(cluster, PREFERRED, 0, 1) == {0: needless, 1: needless}
    assert _elect(cluster, PREFERRED) == {}
    cluster.kill(2)
    try:
        preferred, eligible = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        assert _elect(cluster, PREFERRED, 0, 1) == {0: needless, 1: preferred}
        assert _elect(cluster, UNCLEAN, 0, 1) == {0: needless, 1: eligible}
        assert _elect(cluster, PREFERRED) == {1: preferred}
    finally:
        cluster.restart(2)
    assert _elect(cluster, UNCLEAN) == {}
