"""Requests that would move partitions or their leaders, to brokers of a cluster whose partitions have one replica."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
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


def _reassign(cluster: Cluster, *replicas: int, allows_other_factor: bool = True) -> tuple[ErrorCode, str | None]:
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    request = AlterPartitionReassignmentsRequest(
        topics=[ReassignableTopic(name=TOPIC, partitions=[partition])],
        allow_replication_factor_change=allows_other_factor,
    )
    with Wire(cluster.address_of(2)) as wire:
        response = wire.call(AlterPartitionReassignmentsResponse, 1, request)
    (answer,) = response.responses[0].partitions
    return ErrorCode(answer.error_code), answer.error_message


def test_a_reassignment_to_another_broker_is_refused(cluster: Cluster) -> None:
    """A partition stays where it is. A request to move or to copy it is refused, not silently accepted."""
    assert _reassign(cluster, 1) == (ErrorCode.NONE, None)
    code, message = _reassign(cluster, 2)
    assert code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert message is not None
    assert "orders-0 stays on broker 1" in message
    factor = ErrorCode.INVALID_REPLICATION_FACTOR
    changed = "The replication factor is changed from 1 to 2"
    assert _reassign(cluster, 1, 2, allows_other_factor=False) == (factor, changed)
    code, message = _reassign(cluster, 1, 2)
    assert code is factor
    assert message is not None
    assert message.startswith(f"{changed}, but ")
    unknown = "The manual partition assignment includes broker 9, but no such broker is registered."
    assert _reassign(cluster, 9) == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, unknown)


def _elect(cluster: Cluster, election_type: int, *indexes: int) -> dict[int, ErrorCode]:
    wanted = [TopicPartitions(topic=TOPIC, partitions=list(indexes))] if indexes else None
    request = ElectLeadersRequest(election_type=election_type, topic_partitions=wanted)
    with Wire(cluster.address_of(1)) as wire:
        (result,) = wire.call(ElectLeadersResponse, 2, request).replica_election_results
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
