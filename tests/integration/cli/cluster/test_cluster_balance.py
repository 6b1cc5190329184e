"""`klamm cluster decommission` and `klamm cluster rebalance`, with records and a running producer."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.cli.conftest import PATIENCE_S, Command

from klamm.testing import Cluster

BROKERS = 4
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Runs four brokers, each in a test of its own, because a broker leaves."""
    config = {"min.insync.replicas": "2", "auto.leader.rebalance.enable": "false"}
    with Cluster(BROKERS, replication_factor=3, config=config, session_timeout_ms=3_000) as running:
        yield running


@pytest.fixture
def on_cluster(cluster: Cluster) -> Iterator[Command]:
    """Returns the command, configured for the brokers."""
    command = Command(cluster.bootstrap_servers)
    yield command
    command.end()


def create(cluster: Cluster, *replicas: list[int]) -> str:
    """Creates a topic with these replicas, the preferred leader first."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    topic = NewTopic(name, num_partitions=len(replicas), replica_assignment=list(replicas))
    admin.create_topics([topic])[name].result()
    return name


class Writer:
    """A librdkafka producer that writes numbers until it is stopped."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self.acknowledged: list[int] = []
        self.errors: list[str] = []
        self._cluster = cluster
        self._topic = topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _write(self) -> None:
        settings = {"acks": "all", "enable.idempotence": True, "linger.ms": 5, "log_level": 0}
        producer = Producer({"bootstrap.servers": self._cluster.bootstrap_servers, **settings})
        number = 0
        while not self._is_over.is_set():
            producer.produce(self._topic, str(number).encode(), on_delivery=self._delivered)
            number += 1
            producer.poll(0)
            self._is_over.wait(0.002)
        assert producer.flush(60) == 0

    def _delivered(self, error: object, message: Message) -> None:
        if error is None:
            self.acknowledged.append(int(message.value() or b""))
        else:
            self.errors.append(str(error))


def read_numbers(cluster: Cluster, topic: str, expected: int) -> list[int]:
    """Returns the numbers in the topic, at least as many as are expected."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    numbers: list[int] = []
    try:
        while len(numbers) < expected:
            message = consumer.poll(60)
            assert message is not None
            if message.error() is None:
                numbers.append(int(message.value() or b""))
    finally:
        consumer.close()
    return numbers


def replicas_on(on_cluster: Command, topic: str) -> list[str]:
    return [row["replicas"] for row in on_cluster.rows("topic", "describe", topic)]


def test_all_replicas_leave_a_broker(cluster: Cluster, on_cluster: Command) -> None:
    """While a producer writes, all replicas leave the broker, and no record is lost. No new ones come.

    The dry run shows the moves and changes nothing. The description of the cluster names the cordoned broker.
    """
    cordoned = "broker 4 is cordoned: it gets no new replicas"
    assert cordoned not in on_cluster.done("cluster", "describe")
    topic = create(cluster, [4, 1, 2], [1, 4, 3], [2, 3, 1])
    with Writer(cluster, topic) as writer:
        planned = on_cluster.rows("cluster", "decommission", "4", "--dry-run")
        assert {(row["topic"], row["partition"]) for row in planned} >= {(topic, 0), (topic, 1)}
        assert replicas_on(on_cluster, topic) == ["4,1,2", "1,4,3", "2,3,1"]
        out = on_cluster.done("cluster", "decommission", "4", "--at-once", "1")
        assert cordoned in out
        assert cordoned in on_cluster.done("cluster", "describe")
        described = json.loads(on_cluster.done("cluster", "describe", "--json"))
        assert [each["broker"] for each in described["brokers"] if each["is_cordoned"]] == [4]
        assert "broker 4 has no replicas now" in out
        late = on_cluster.done("topic", "create", f"{topic}-late", "-p", "8")
        assert late
    assert not writer.errors
    for each in (topic, f"{topic}-late"):
        assert not any("4" in replicas.split(",") for replicas in replicas_on(on_cluster, each))
    assert replicas_on(on_cluster, topic)[2] == "2,3,1"
    found = read_numbers(cluster, topic, len(writer.acknowledged))
    assert sorted(found) == sorted(writer.acknowledged)


def test_an_empty_broker_is_unregistered_after_it_was_stopped(cluster: Cluster, on_cluster: Command) -> None:
    """A running broker is refused. A stopped one leaves the cluster."""
    refused = on_cluster("cluster", "decommission", "4", "--unregister")
    assert (refused.status, "is running: stop it first" in refused.stderr) == (1, True)
    cluster.kill(4)
    deadline = time.monotonic() + PATIENCE_S
    while on_cluster("cluster", "decommission", "4", "--unregister").status:  # until the session has expired
        assert time.monotonic() < deadline
    assert [row["broker"] for row in on_cluster.rows("cluster", "describe")] == [1, 2, 3]


def test_a_broker_that_the_others_can_not_replace_stays(cluster: Cluster, on_cluster: Command) -> None:
    """With too few other brokers, the command names a partition, and changes nothing: the broker is not cordoned."""
    topic = create(cluster, [1, 2, 3, 4])
    refused = on_cluster("cluster", "decommission", "4")
    assert refused.status == 1
    assert f"{topic}-0 has 4 replicas, and without broker 4 only 3 brokers can have them" in refused.stderr
    assert "cordoned" not in refused.stdout
    create(cluster, [4, 1, 2])  # a cordoned broker would be refused here


def test_a_cancelled_broker_gets_replicas_again(cluster: Cluster, on_cluster: Command) -> None:
    """--cancel lets the broker get replicas; rebalance then plans how they come back, and --execute moves them.

    After it, a second plan is empty, and the preferred leaders lead.
    """
    topic = create(cluster, [4, 1, 2], [4, 2, 3], [1, 4, 3], [1, 2, 3])
    with Writer(cluster, topic) as writer:
        on_cluster.done("cluster", "decommission", "4")
        assert all("4" not in replicas.split(",") for replicas in replicas_on(on_cluster, topic))
        assert "can get replicas again" in on_cluster.done("cluster", "decommission", "4", "--cancel")
        shown = on_cluster.done("cluster", "rebalance")
        assert "nothing was changed" in shown
        assert all("4" not in replicas.split(",") for replicas in replicas_on(on_cluster, topic))
        on_cluster.done("cluster", "rebalance", "--execute", "--at-once", "2")
    assert not writer.errors
    brokers = {row["broker"]: row for row in on_cluster.rows("cluster", "describe")}
    assert {row["replicas"] for row in brokers.values()} == {3}
    assert {row["leaders"] for row in brokers.values()} == {1}
    found = read_numbers(cluster, topic, len(writer.acknowledged))
    assert sorted(found) == sorted(writer.acknowledged)
