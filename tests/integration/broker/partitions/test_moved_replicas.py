"""Replicas that move away from a running broker, and come back: what happens to their folders, as clients see it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.support.wire import Wire

from klamm.broker.replication.replication_metrics import replication_figures
from klamm.broker.server import BrokerServer
from klamm.metadata.image import TopicImage
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from klamm.protocol.schema.alter_partition_reassignments_response import AlterPartitionReassignmentsResponse
from klamm.protocol.schema.describe_log_dirs_request import DescribeLogDirsRequest
from klamm.protocol.schema.describe_log_dirs_response import DescribeLogDirsResponse
from klamm.protocol.schema.fetch_request import FetchPartition, FetchRequest, FetchTopic
from klamm.protocol.schema.fetch_response import FetchResponse
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from klamm.protocol.schema.list_offsets_response import ListOffsetsResponse
from klamm.protocol.schema.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from klamm.protocol.schema.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from klamm.testing import Cluster

TOPIC = "orders"
PATIENCE_S = 30.0


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Four brokers, and a topic with a partition on brokers 1 and 2."""
    with Cluster(4, replication_factor=2, config={"min.insync.replicas": "1"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[1, 2]])])[TOPIC].result()
        yield running


def wait(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def produce(cluster: Cluster, values: range) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for value in values:
        producer.produce(TOPIC, b"%d" % value)
    assert producer.flush(PATIENCE_S) == 0


def live_broker(cluster: Cluster) -> int:
    leader = cluster.leader_of(TOPIC, 0)
    assert leader is not None
    return leader


def reassign(cluster: Cluster, replicas: Sequence[int] | None) -> None:
    """Asks for other replicas; None cancels the reassignment in progress."""
    partition = ReassignablePartition(partition_index=0, replicas=None if replicas is None else list(replicas))
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=TOPIC, partitions=[partition])])
    with Wire(cluster.address_of(live_broker(cluster))) as wire:
        response = wire.call(AlterPartitionReassignmentsResponse, 0, request)
    (answer,) = response.responses[0].partitions
    assert answer.error_code == ErrorCode.NONE, answer


def is_reassigned(cluster: Cluster) -> bool:
    request = ListPartitionReassignmentsRequest(topics=None)
    with Wire(cluster.address_of(live_broker(cluster))) as wire:
        return not wire.call(ListPartitionReassignmentsResponse, 0, request).topics


def move(cluster: Cluster, replicas: Sequence[int]) -> None:
    reassign(cluster, replicas)
    wait(lambda: is_reassigned(cluster))


def folders(cluster: Cluster, broker: int) -> list[str]:
    """Returns the names of the partition's folders, without those that are deleted soon."""
    names = [path.name for path in cluster.data_dir_of(broker).glob(f"{TOPIC}-*")]
    return sorted(name for name in names if not name.endswith("-delete"))


def in_log_directories(cluster: Cluster, broker: int) -> bool:
    with Wire(cluster.address_of(broker)) as wire:
        response = wire.call(DescribeLogDirsResponse, 4, DescribeLogDirsRequest(topics=None))
    return any(topic.name == TOPIC for result in response.results for topic in result.topics)


def bytes_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


def wait_for_equal(cluster: Cluster, *brokers: int) -> None:
    """Waits until the brokers hold the same bytes, which are not empty."""

    def are_equal() -> bool:
        contents = {bytes_of(cluster.data_dir_of(broker) / f"{TOPIC}-0") for broker in brokers}
        return len(contents) == 1 and contents != {b""}

    wait(are_equal)


def image_of(cluster: Cluster) -> TopicImage:
    async def find(server: BrokerServer) -> TopicImage:
        assert server.context is not None
        return server.context.metadata.image.topics[TOPIC]

    return cluster.run_in_broker(live_broker(cluster), find)


def test_broker_that_is_no_replica_any_more_forgets_the_partition(cluster: Cluster) -> None:
    """The folder of a replica that has moved away is deleted. DescribeLogDirs and the metrics don't name it, consumers
    and followers get NOT_LEADER_OR_FOLLOWER, and the other replicas hold all records."""
    produce(cluster, range(100))
    move(cluster, [3, 2])
    wait(lambda: not folders(cluster, 1))
    assert list(cluster.data_dir_of(1).glob(f"{TOPIC}-0.*-delete"))
    wait_for_equal(cluster, 2, 3)
    assert [in_log_directories(cluster, broker) for broker in (1, 2, 3)] == [False, True, True]
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000, current_leader_epoch=-1)
    fetch = FetchRequest(
        max_bytes=1000, topics=[FetchTopic(topic_id=image_of(cluster).topic_id, partitions=[partition])]
    )
    lookup = ListOffsetsRequest(
        replica_id=3, topics=[ListOffsetsTopic(name=TOPIC, partitions=[ListOffsetsPartition(timestamp=-1)])]
    )
    with Wire(cluster.address_of(1)) as wire:
        fetched = wire.call(FetchResponse, 17, fetch).responses[0].partitions[0]
        found = wire.call(ListOffsetsResponse, 8, lookup).topics[0].partitions[0]
    assert (fetched.error_code, found.error_code) == (ErrorCode.NOT_LEADER_OR_FOLLOWER,) * 2

    async def figures(server: BrokerServer) -> dict[str, float]:
        assert server.context is not None
        replication = server.services.replication
        assert replication is not None
        found = replication_figures(server.context.partitions, replication)
        return {figure.name.rpartition("_")[2]: figure.values[0][1] for figure in found}

    seen = cluster.run_in_broker(1, figures)
    assert (seen["leadercount"], seen["offlinereplicacount"], seen["maxlag"]) == (0, 0, 0)


def test_replica_that_comes_back_copies_the_leader(cluster: Cluster) -> None:
    """A replica moves away and back many times while records arrive: all replicas hold the same bytes in the end."""
    for step in range(6):
        produce(cluster, range(50 * step, 50 * step + 50))
        move(cluster, [1, 3] if step % 2 == 0 else [1, 2])
    produce(cluster, range(300, 350))
    wait_for_equal(cluster, 1, 2)
    wait(lambda: not folders(cluster, 3))
    for broker in (1, 2, 3):
        cluster.restart(broker)
    wait_for_equal(cluster, 1, 2)
    assert not folders(cluster, 3)


def test_cancelled_reassignment_removes_the_copy(cluster: Cluster) -> None:
    """The replica that a cancelled reassignment has added is deleted again, and can be added later."""
    produce(cluster, range(100))
    cluster.kill(4)
    try:
        reassign(cluster, [3, 4])  # the reassignment can't end without broker 4
        wait(lambda: folders(cluster, 3) == [f"{TOPIC}-0"])
        reassign(cluster, None)
        wait(lambda: not folders(cluster, 3))
    finally:
        cluster.restart(4)
    move(cluster, [1, 3])
    wait_for_equal(cluster, 1, 3)


def test_start_sets_a_folder_aside_that_is_not_assigned(cluster: Cluster) -> None:
    """A replica moves away while its broker is down. The start renames its folder to -stray; when the
    partition comes back, the broker copies all of it."""
    produce(cluster, range(100))
    cluster.kill(2)
    move(cluster, [1, 3])
    cluster.restart(2)
    (stray,) = folders(cluster, 2)
    assert stray.endswith("-stray")
    assert bytes_of(cluster.data_dir_of(2) / stray) == bytes_of(cluster.data_dir_of(1) / f"{TOPIC}-0")
    assert not in_log_directories(cluster, 2)
    produce(cluster, range(100, 150))
    move(cluster, [1, 2])
    wait_for_equal(cluster, 1, 2)
    cluster.restart(2)
    assert folders(cluster, 2) == [f"{TOPIC}-0", stray]


@pytest.mark.parametrize("is_kill", [True, False])
def test_partition_that_comes_back_while_its_broker_is_down(cluster: Cluster, is_kill: bool) -> None:
    """A replica moves away from a running broker. While this one is down, the replica comes back: no folder counts as
    lost, and the broker copies the leader's log."""
    produce(cluster, range(100))
    wait_for_equal(cluster, 1, 2)
    move(cluster, [1, 3])
    wait(lambda: not folders(cluster, 2))
    if is_kill:
        cluster.kill(2)
        reassign(cluster, [1, 2])
        cluster.restart(2)
        wait(lambda: is_reassigned(cluster))
    else:
        cluster.restart(2)
        move(cluster, [1, 2])
    produce(cluster, range(100, 150))
    wait_for_equal(cluster, 1, 2)
    wait(lambda: not folders(cluster, 3))
