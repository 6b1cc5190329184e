"""ListOffsets with the replica id of a debugging consumer (-2), which followers answer too, as in Kafka."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.wire import Wire

from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsPartitionResponse, ListOffsetsResponse
from klamm.testing import Cluster

TOPIC = "orders"
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
CONSUMER, DEBUGGING = -1, -2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Runs three brokers. Broker 1 leads two partitions with ten records, broker 2 follows, broker 3 has no replica."""
    with Cluster(brokers=3) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, num_partitions=2, replica_assignment=[[1, 2], [1, 2]])])[TOPIC].result()
        for index in (0, 1):
            _produce(running, index, acks="all")
        yield running


def _produce(cluster: Cluster, index: int, acks: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": acks, "log_level": 0})
    for number in range(10):
        producer.produce(TOPIC, b"%d" % number, partition=index, timestamp=1_700_000_000_000 + number)
    assert producer.flush(30) == 0


def _ask(
    cluster: Cluster, broker: int, timestamp: int, replica_id: int = DEBUGGING, *, index: int = 0, epoch: int = -1
) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=replica_id, topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])], timeout_ms=10_000
    )
    with Wire(cluster.address_of(broker)) as wire:
        response = wire.call(ListOffsetsResponse, 10, request)
    answer: ListOffsetsPartitionResponse = response.topics[0].partitions[0]
    return answer


def test_a_follower_answers_about_its_own_records(cluster: Cluster) -> None:
    """Leader and follower answer alike: log end offset, log start offset, and offsets by time."""
    for broker in (1, 2):
        assert _ask(cluster, broker, LATEST).offset == 10
        assert _ask(cluster, broker, EARLIEST).offset == 0
        assert _ask(cluster, broker, 1_700_000_000_004).offset == 4
        assert _ask(cluster, broker, MAX_TIMESTAMP).offset == 9
        assert _ask(cluster, broker, 1_800_000_000_000).offset == -1


def test_only_a_debugging_consumer_reads_a_follower(cluster: Cluster) -> None:
    """A consumer is sent to the leader, and a broker without a replica answers neither."""
    refused = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert _ask(cluster, 2, LATEST, CONSUMER).error_code == refused
    assert _ask(cluster, 3, LATEST, CONSUMER).error_code == refused
    assert _ask(cluster, 3, LATEST, DEBUGGING).error_code == refused


def test_leader_epochs_are_compared_on_followers_too(cluster: Cluster) -> None:
    """A follower answers with the leader epoch that it follows, and refuses a newer one."""
    epoch = _ask(cluster, 1, LATEST).leader_epoch
    assert _ask(cluster, 2, LATEST, epoch=epoch).leader_epoch == epoch
    assert _ask(cluster, 2, LATEST, epoch=epoch + 1).error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_follower_that_is_cut_off_tells_how_far_it_came(cluster: Cluster) -> None:
    """The log end offset of the leader rises, and that of the follower does not."""
    cluster.cut(1, 2)
    try:
        _produce(cluster, 1, acks="1")
        assert _ask(cluster, 1, LATEST, index=1).offset == 20
        assert _ask(cluster, 2, LATEST, index=1).offset == 10
    finally:
        cluster.heal()
