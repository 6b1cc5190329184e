"""Tests that Apache Kafka's `kafka-reassign-partitions --throttle` throttles a reassignment in a cluster of klamm."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, NewTopic, ResourceType

from klamm.testing import Cluster

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

TOPIC = "orders"
PATIENCE_S = 120.0
_PLAN = {"version": 1, "partitions": [{"topic": TOPIC, "partition": 0, "replicas": [3, 2]}]}
_SET_BY_THE_TOOL = {
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
}


class _Tool:
    """Runs the tool with one reassignment."""

    def __init__(self, classpath: str, bootstrap: str, folder: Path) -> None:
        self._command = ["java", "-XX:TieredStopAtLevel=1", "-cp", classpath]
        self._plan = folder / "plan.json"
        self._plan.write_text(json.dumps(_PLAN), encoding="utf-8")
        self._bootstrap = bootstrap

    def run(self, *arguments: str) -> str:
        """Returns what the tool prints."""
        ran = subprocess.run(
            [
                *self._command,
                "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
                *("--bootstrap-server", self._bootstrap, "--reassignment-json-file", str(self._plan), *arguments),
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout


def _throttles(admin: AdminClient) -> Mapping[str, Mapping[str, str]]:
    """Returns the dynamic configurations of the topic and of the brokers that throttle replication."""
    resources = [ConfigResource(ResourceType.TOPIC, TOPIC)]
    resources += [ConfigResource(ResourceType.BROKER, str(broker)) for broker in (1, 2, 3)]
    dynamic = (ConfigSource.DYNAMIC_TOPIC_CONFIG.value, ConfigSource.DYNAMIC_BROKER_CONFIG.value)
    found = {}
    for resource in resources:
        (described,) = admin.describe_configs([resource]).values()  # librdkafka takes one broker at a time
        entries = described.result().values()
        found[resource.name] = {
            entry.name: entry.value for entry in entries if entry.name in _SET_BY_THE_TOOL and entry.source in dynamic
        }
    return found


def test_the_tool_throttles_a_reassignment_and_removes_the_throttle(kafka_classpath: str, tmp_path: Path) -> None:
    """With a low rate the reassignment is in progress; a higher rate lets it end, and --verify removes all settings."""
    config = {"min.insync.replicas": "1", "replica.fetch.max.bytes": "1000", "replica.fetch.wait.max.ms": "50"}
    with Cluster(3, replication_factor=2, config=config) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[1, 2]])])[TOPIC].result()
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
        for _ in range(100):
            producer.produce(TOPIC, b"x" * 10_000)
            assert producer.flush(PATIENCE_S) == 0
        tool = _Tool(kafka_classpath, cluster.bootstrap_servers, tmp_path)
        rate = {"leader.replication.throttled.rate": "2000", "follower.replication.throttled.rate": "2000"}
        assert "The inter-broker throttle limit was set to 2000 B/s" in tool.run("--execute", "--throttle", "2000")
        assert _throttles(admin) == {
            TOPIC: {
                "leader.replication.throttled.replicas": "0:1,0:2",
                "follower.replication.throttled.replicas": "0:3",
            },
            **dict.fromkeys(("1", "2", "3"), rate),
        }
        assert f"{TOPIC}-0 is still in progress" in tool.run("--verify", "--preserve-throttles")
        tool.run("--execute", "--additional", "--throttle", "1000000000")
        deadline = time.monotonic() + PATIENCE_S
        while f"{TOPIC}-0 is completed" not in tool.run("--verify", "--preserve-throttles"):
            assert time.monotonic() < deadline
        assert any(_throttles(admin).values())
        assert "Clearing broker-level throttles" in tool.run("--verify")
        assert not any(_throttles(admin).values())
        replicas = admin.list_topics(TOPIC, timeout=PATIENCE_S).topics[TOPIC].partitions[0].replicas
        assert replicas == [3, 2]
