"""Tests that Java's consumer reads from the follower in its rack (KIP-392), until that follower dies."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop.java_client import JavaClient
from tests.support.follower_reads import RACK_AWARE_SELECTOR, waiting_reads

from klamm.testing import Cluster

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]

TOPIC = "orders"
PATIENCE_S = 60.0
FOLLOWER = 2


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_java_reads_from_the_follower_in_its_rack(java_client_classpath: str, protocol: str) -> None:
    """The consumer waits for records at the follower, gets them there, and loses none when the follower is killed."""
    config = {"replica.selector.class": RACK_AWARE_SELECTOR}
    with Cluster(2, racks=["a", "b"], replication_factor=2, config=config, session_timeout_ms=1000) as cluster:
        client = JavaClient(java_client_classpath, cluster.bootstrap_servers)
        try:
            admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
            admin.create_topics([NewTopic(TOPIC, 1, replica_assignment=[[1, FOLLOWER]])])[TOPIC].result()
            client.call("produce", topic=TOPIC, records=[{"value": str(number)} for number in range(50)])
            member = client.join("reader", "readers", TOPIC, client_rack="b", group_protocol=protocol)
            member.wait_until(lambda it: len(it.records) == 50, "the first records")
            _wait(lambda: waiting_reads(cluster, FOLLOWER) == 1)
            client.call("produce", topic=TOPIC, records=[{"value": str(number)} for number in range(50, 100)])
            member.wait_until(lambda it: len(it.records) == 100, "the records behind them")
            _wait(lambda: waiting_reads(cluster, FOLLOWER) == 1)
            cluster.kill(FOLLOWER)
            client.call("produce", topic=TOPIC, records=[{"value": str(number)} for number in range(100, 150)])
            member.wait_until(lambda it: len(it.records) == 150, "the records after the kill")
            assert [int(record["value"]) for record in member.records] == list(range(150))
        finally:
            client.close()


def _wait(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)
