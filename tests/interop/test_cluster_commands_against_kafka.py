"""The commands that show and change replicas, on three nodes of Apache Kafka."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.cli.conftest import Command, until
from tests.support.kafka_broker import KafkaUnavailable
from tests.support.kafka_cluster import KafkaCluster
from tests.support.share_of_gate import is_in_share_of_gate
from tests.support.toolchains import toolchain_is_missing
from tests.support.topic_readiness import wait_until_led

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not is_in_share_of_gate("commands on a cluster of Kafka", 3),
        reason="the gate runs it for a third of the commits",
    ),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    """Runs the nodes for all tests of this module."""
    try:
        with KafkaCluster(transaction_version=2) as running:
            yield running
    except KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))


@pytest.fixture
def klamm(cluster: KafkaCluster) -> Iterator[Command]:
    """Returns the command, configured for the nodes."""
    command = Command(cluster.bootstrap_servers)
    yield command
    command.end()


def _topic(cluster: KafkaCluster, *replicas: list[int]) -> str:
    """Creates a topic with these replicas, and writes ten records to its first partition."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    topic = NewTopic(name, len(replicas), replica_assignment=list(replicas), config={"min.insync.replicas": "1"})
    admin.create_topics([topic])[name].result()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for _ in range(10):
        producer.produce(name, b"x" * 100, partition=0)
    assert producer.flush(30) == 0
    for node in cluster.nodes:  # a node hears of the topic a little later, and the commands ask any of them
        wait_until_led(node.bootstrap_servers, name, len(replicas))
    return name


def test_replicas_are_described(cluster: KafkaCluster, klamm: Command) -> None:
    """Followers tell their log end offsets and high watermarks, and brokers the bytes of their replicas."""
    topic = _topic(cluster, [1, 2, 3])
    (partition,) = klamm.rows("topic", "describe", topic)
    assert (partition["leader"], partition["replicas"], partition["high_watermark"]) == (1, "1,2,3", 10)
    replicas = klamm.rows("topic", "describe", topic, "--replicas")
    assert [(each["role"], each["log_end_offset"], each["lag"]) for each in replicas] == [
        ("leader", 10, 0),
        ("follower", 10, 0),
        ("follower", 10, 0),
    ]
    assert all(each["size_bytes"] > 1000 for each in replicas)
    until(lambda: {row["high_watermark"] for row in klamm.rows("topic", "describe", topic, "--replicas")} == {10})
    assert "min.insync.replicas=1" in klamm.done("topic", "describe", topic)


def test_brokers_are_described(cluster: KafkaCluster, klamm: Command) -> None:
    """All brokers are active, with their places and bytes."""
    topic = _topic(cluster, [1, 2], [2, 3])
    document = json.loads(klamm.done("cluster", "describe", "--json"))
    assert [(each["broker"], each["state"]) for each in document["brokers"]] == [
        (1, "active"),
        (2, "active"),
        (3, "active"),
    ]
    assert all(each["replicas"] > 0 and each["size_bytes"] >= 0 for each in document["brokers"])
    assert document["controller"] in (1, 2, 3)
    assert topic not in {each["topic"] for each in document["under_replicated"]}


def test_partitions_move_and_leaders_are_elected(cluster: KafkaCluster, klamm: Command) -> None:
    """Replicas are added, moved and removed, and the preferred leader is elected."""
    topic = _topic(cluster, [1], [2])
    assert "2 partitions moved" in klamm.done("cluster", "reassign", topic, "--replication-factor", "2")
    # The command has asked the controller. Other nodes hear of the change a little later.
    until(lambda: {len(row["isr"].split(",")) for row in klamm.rows("topic", "describe", topic)} == {2})
    klamm.done("cluster", "reassign", topic, "--to", "3", "--replication-factor", "1")
    until(lambda: [row["replicas"] for row in klamm.rows("topic", "describe", topic)] == ["3", "3"])
    until(lambda: klamm.rows("topic", "describe", topic)[0]["high_watermark"] == 10)
    klamm.done("cluster", "reassign", topic, "--to", "1,3", "--replication-factor", "2")
    rows = klamm.rows("cluster", "elect", topic)
    assert {(row["new_leader"], row["result"]) for row in rows} == {(3, "not needed")}
    assert klamm.rows("cluster", "reassign", "--status") == []
    assert "no reassignment is in progress" in klamm.done("cluster", "reassign", "--cancel")


def test_moves_are_throttled(cluster: KafkaCluster, klamm: Command) -> None:
    """Kafka's brokers take the throttle of a move, each its own rate, and show it until it is removed at the end."""
    topic = _topic(cluster, [1])
    out = klamm.done("cluster", "reassign", topic, "--to", "2", "--throttle", "1000000000")
    assert "1 partition moved" in out
    assert "the throttle is removed" in out

    def is_throttled() -> bool:
        rows = klamm.rows("topic", "describe", topic, "--configs")
        return any(row["value"] for row in rows if "throttled" in row["key"])

    until(lambda: not is_throttled())
    klamm.done("cluster", "reassign", topic, "--to", "3", "--no-wait", "--throttle", "1000000000")
    until(lambda: "the throttle is removed" in klamm.done("cluster", "reassign", "--status"))
    assert "throttle" not in klamm.done("cluster", "reassign", "--status")


def test_a_node_that_is_away(cluster: KafkaCluster, klamm: Command) -> None:
    """Its partitions need attention, the cluster shows it as fenced, and a failed election makes the status 1."""
    topic = _topic(cluster, [3, 1], [3, 1])
    single = _topic(cluster, [3])

    def chosen(name: str, *words: str) -> list[int]:
        return [row["partition"] for row in klamm.rows("topic", "describe", name, *words)]

    cluster.nodes[2].kill()
    try:
        until(lambda: chosen(topic, "--under-replicated") == [0, 1])
        until(lambda: chosen(single, "--unavailable") == [0])
        assert chosen(topic, "--under-min-isr", "--unavailable") == []
        brokers = {each["broker"]: each for each in json.loads(klamm.done("cluster", "describe", "--json"))["brokers"]}
        assert (brokers[3]["state"], brokers[3]["size_bytes"]) == ("fenced", None)
        failed = klamm("cluster", "elect", f"{topic}:0")
        assert (failed.status, "PREFERRED_LEADER_NOT_AVAILABLE" in failed.stderr) == (1, True)
        assert "nothing to change" in klamm.done("cluster", "reassign", topic, "--replication-factor", "2")
    finally:
        cluster.nodes[2].restart()
    until(lambda: chosen(topic, "--under-replicated") == [])
    elected = klamm.rows("cluster", "elect", topic)
    assert {(row["old_leader"], row["new_leader"], row["result"]) for row in elected} == {(1, 3, "elected")}
