"""`--throttle` of the commands that move replicas, and what removes the throttle."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ResourceType,
)
from tests.integration.cli.conftest import Command, until
from tests.support.patience import Limit
from tests.support.share_of_gate import is_in_share_of_gate

from klamm.testing import Cluster

pytestmark = pytest.mark.timeout(300)

NewTopic = Callable[..., str]

BROKERS = ("1", "2", "3")
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
SLOW = "2000"  # bytes per second: the records of a partition would take five minutes
FAST = "1000000000"
_SLOW_RATES = {LEADER_RATE: SLOW, FOLLOWER_RATE: SLOW}
PATIENCE_S = 60.0
_SHARE = pytest.mark.skipif(
    not is_in_share_of_gate("throttled moves", 3), reason="the gate runs it for a third of the commits"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Runs three brokers for all tests of the module; a request of a follower gets about one record."""
    config = {"replica.fetch.max.bytes": "1000", "replica.fetch.wait.max.ms": "50"}
    with Cluster(3, config=config, session_timeout_ms=1_000) as running:
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})


@pytest.fixture(autouse=True)
def no_other_topics(cluster: Cluster, admin: AdminClient) -> Iterator[None]:
    """Deletes the topics of a test: a drain or a rebalance would move them slowly."""
    yield
    topics = list(admin.list_topics(timeout=PATIENCE_S).topics)
    for deleted in (admin.delete_topics(topics) if topics else {}).values():
        deleted.result()


def _fill(cluster: Cluster, topic: str, partitions: int = 1) -> None:
    """Writes sixty batches of 10 kB to each partition."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for _ in range(60):
        for partition in range(partitions):
            producer.produce(topic, b"x" * 10_000, partition=partition)
        assert producer.flush(PATIENCE_S) == 0


def _throttles(admin: AdminClient, topic: str) -> Mapping[str, Mapping[str, str]]:
    """Returns the throttles of the topic and of the brokers that have some."""
    resources = [ConfigResource(ResourceType.TOPIC, topic)]
    resources += [ConfigResource(ResourceType.BROKER, broker) for broker in BROKERS]
    dynamic = (ConfigSource.DYNAMIC_TOPIC_CONFIG.value, ConfigSource.DYNAMIC_BROKER_CONFIG.value)
    found = {}
    for resource in resources:
        (described,) = admin.describe_configs([resource]).values()  # librdkafka takes one broker at a time
        values = {
            entry.name: entry.value
            for entry in described.result().values()
            if ".replication.throttled." in entry.name and entry.source in dynamic
        }
        if values:
            found[resource.name] = values
    return found


def _set(admin: AdminClient, kind: ResourceType, name: str, values: Mapping[str, str | None]) -> None:
    """Sets configurations; None deletes one."""
    entries = [
        ConfigEntry(
            key,
            value or "",
            incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
        )
        for key, value in values.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result()


def _wait_for_move(admin: AdminClient, running: subprocess.Popen[bytes], topic: str) -> None:
    """Waits until a command has begun to move a partition of the topic. The throttle is set before.

    Does not use `--status`, which would remove the throttle as long as nothing moves.
    """
    limit = Limit(PATIENCE_S)
    while all(len(each.replicas) == 1 for each in admin.list_topics(topic).topics[topic].partitions.values()):
        assert running.poll() is None, running.communicate()
        assert not limit.is_over
        time.sleep(0.1)


def _end(running: subprocess.Popen[bytes]) -> str:
    """Waits for the end of a command that must succeed; returns its standard output."""
    out, errors = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, errors.decode()
    return out.decode()


def test_a_throttled_reassignment_is_slow_until_the_rate_is_raised(
    cluster: Cluster, on_cluster: Command, new_topic: NewTopic, admin: AdminClient
) -> None:
    """--throttle names the replicas in the topic, and the rate in the brokers that send and receive, as Kafka's tool
    does. `--status --throttle` changes the rate, and the end of the wait removes the throttle."""
    topic = new_topic([1])
    _fill(cluster, topic)
    running = on_cluster.start("cluster", "reassign", topic, "--to", "2", "--throttle", SLOW)
    _wait_for_move(admin, running, topic)
    assert _throttles(admin, topic) == {
        topic: {LEADERS: "0:1", FOLLOWERS: "0:2"},
        "1": _SLOW_RATES,
        "2": _SLOW_RATES,
    }
    (row,) = on_cluster.rows("cluster", "reassign", "--status")
    assert row["copied_bytes"] < row["size_bytes"]
    on_cluster.done("cluster", "reassign", "--status", "--throttle", FAST)
    out = _end(running)
    assert "each broker copies at most 2.0 kB a second" in out
    assert "1 partition moved" in out
    assert "the throttle is removed" in out
    assert _throttles(admin, topic) == {}


@_SHARE
def test_status_removes_the_throttle_of_a_move_that_has_ended(
    cluster: Cluster, on_cluster: Command, new_topic: NewTopic, admin: AdminClient
) -> None:
    """With --no-wait the throttle stays, as long as a partition moves. --status removes it after that."""
    topic = new_topic([1])
    _fill(cluster, topic)
    out = on_cluster.done("cluster", "reassign", topic, "--to", "3", "--no-wait", "--throttle", SLOW)
    assert "`klamm cluster reassign --status` removes it" in out
    assert len(on_cluster.rows("cluster", "reassign", "--status")) == 1
    assert _throttles(admin, topic).keys() == {topic, "1", "3"}
    on_cluster.done("cluster", "reassign", "--status", "--throttle", FAST)
    until(lambda: "the throttle is removed" in on_cluster.done("cluster", "reassign", "--status"))
    assert _throttles(admin, topic) == {}
    assert "throttle" not in on_cluster.done("cluster", "reassign", "--status")


@_SHARE
def test_cancel_removes_the_throttle(
    cluster: Cluster, on_cluster: Command, new_topic: NewTopic, admin: AdminClient
) -> None:
    """A cancelled reassignment leaves no throttle."""
    topic = new_topic([1])
    _fill(cluster, topic)
    on_cluster.done("cluster", "reassign", topic, "--to", "2", "--no-wait", "--throttle", SLOW)
    assert _throttles(admin, topic).keys() == {topic, "1", "2"}
    assert "the throttle is removed" in on_cluster.done("cluster", "reassign", "--cancel")
    assert _throttles(admin, topic) == {}


def test_a_throttle_of_all_replicas_stays(on_cluster: Command, new_topic: NewTopic, admin: AdminClient) -> None:
    """A user has throttled all replicas of a topic. --status removes neither this throttle nor the brokers' rates."""
    topic, moved = new_topic([1, 2]), new_topic([1, 2])
    _set(admin, ResourceType.TOPIC, topic, {LEADERS: "*"})
    _set(admin, ResourceType.TOPIC, moved, {LEADERS: "0:1", FOLLOWERS: "0:2"})
    _set(admin, ResourceType.BROKER, "1", {LEADER_RATE: FAST})
    try:
        on_cluster.done("cluster", "reassign", "--status")
        assert _throttles(admin, topic) == {topic: {LEADERS: "*"}, "1": {LEADER_RATE: FAST}}
        assert _throttles(admin, moved).keys() == {"1"}
    finally:
        _set(admin, ResourceType.TOPIC, topic, {LEADERS: None})
    on_cluster.done("cluster", "reassign", "--status")
    assert _throttles(admin, topic) == {}


@_SHARE
@pytest.mark.parametrize("words", [("decommission", "3"), ("rebalance", "--execute")])
def test_batches_of_moves_are_throttled(
    cluster: Cluster, on_cluster: Command, new_topic: NewTopic, admin: AdminClient, words: tuple[str, ...]
) -> None:
    """--throttle limits the moves of a drain and of a rebalance, and goes with the last one. After Ctrl-C it stays, and
    the command says so."""
    topic = new_topic([3], [3], [3])
    _fill(cluster, topic, partitions=3)
    try:
        running = on_cluster.start("cluster", *words, "--at-once", "1", "--throttle", SLOW)
        _wait_for_move(admin, running, topic)
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=PATIENCE_S)
        assert (running.returncode, "the throttle stays" in errors.decode()) == (130, True)
        found = _throttles(admin, topic)
        assert found[topic].keys() == {LEADERS, FOLLOWERS}
        assert found["3"] == _SLOW_RATES
        assert "the throttle is removed" in on_cluster.done("cluster", "reassign", "--cancel")
        out = on_cluster.done("cluster", *words, "--at-once", "2", "--throttle", FAST)
    finally:
        on_cluster.done("cluster", "decommission", "3", "--cancel")
    assert "each broker copies at most 1.0 GB a second" in out
    assert out.count("the throttle is removed") == 1
    assert _throttles(admin, topic) == {}
    assert {row["replicas"] for row in on_cluster.rows("topic", "describe", topic)} >= {"1", "2"}


def test_a_drain_that_goes_on_after_an_interrupt_removes_the_throttle(
    cluster: Cluster, on_cluster: Command, new_topic: NewTopic, admin: AdminClient
) -> None:
    """All partitions move already when the command is given again. It waits for them, with the new rate."""
    topic = new_topic([3])
    _fill(cluster, topic)
    words = ("cluster", "decommission", "3")
    try:
        running = on_cluster.start(*words, "--throttle", SLOW)
        _wait_for_move(admin, running, topic)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=PATIENCE_S)
        out = on_cluster.done(*words, "--throttle", FAST)
    finally:
        on_cluster.done(*words, "--cancel")
    assert "each broker copies at most 1.0 GB a second" in out
    assert "the throttle is removed" in out
    assert _throttles(admin, topic) == {}


def test_a_throttle_does_not_go_with_cancel(on_cluster: Command) -> None:
    """Wrong use ends with status 2, and so does a rate of 0, with which no partition would ever move."""
    refused = on_cluster("cluster", "reassign", "--cancel", "--throttle", "10")
    assert (refused.status, "does not go with --throttle" in refused.stderr) == (2, True)
    assert on_cluster("cluster", "reassign", "--status", "--throttle", "0").status == 2
