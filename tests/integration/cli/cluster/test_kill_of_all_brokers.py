"""Processes of a cluster over a real etcd, all of which are killed."""

from __future__ import annotations

import sys
import time

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.cli.cluster.conftest import Start
from tests.integration.cli.conftest import PATIENCE_S
from tests.support.etcd_server import Etcd
from tests.support.watermarks import watermarks_of

pytestmark = [
    pytest.mark.timeout(300),  # several processes are started, one after the other
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux identifies its page cache"),
]


def _leader(admin: AdminClient) -> int:
    return admin.list_topics("orders", timeout=PATIENCE_S).topics["orders"].partitions[0].leader


def test_a_follower_leads_after_a_kill_of_all_brokers(start: Start, etcd: Etcd) -> None:
    """All brokers are killed at once, and the leader does not come back. The followers have what they wrote, so one of
    them leads, without an unclean election, and no acknowledged record is lost."""
    config = ("-X", "broker.session.timeout.ms=6000", "-X", "min.insync.replicas=2")
    brokers = {number: start(f"broker-{number}", etcd.url("kill"), *config) for number in (1, 2, 3)}
    servers = ",".join(broker.bootstrap_servers for broker in brokers.values())
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result()
    producer = Producer({"bootstrap.servers": servers, "acks": "all", "log_level": 0})
    failures: list[object] = []
    for number in range(200):
        producer.produce("orders", str(number), callback=lambda error, _: failures.extend(filter(None, [error])))
    assert producer.flush(PATIENCE_S) == 0
    assert not failures
    leader = _leader(admin)
    by_address = {broker.bootstrap_servers: number for number, broker in brokers.items()}
    nodes = admin.list_topics(timeout=PATIENCE_S).brokers
    numbers = {node.id: by_address[f"{node.host}:{node.port}"] for node in nodes.values()}
    for broker in brokers.values():
        broker.kill()
    followers = [broker for number, broker in brokers.items() if number != numbers[leader]]
    for broker in followers:
        broker.start()
    deadline = time.monotonic() + PATIENCE_S
    admin = AdminClient({"bootstrap.servers": followers[0].bootstrap_servers, "log_level": 0})
    while _leader(admin) in (leader, -1):  # the session of the leader outlives it
        assert time.monotonic() < deadline
        time.sleep(0.1)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "readers", "log_level": 0})
    assert watermarks_of(consumer, "orders") == (0, 200)
    consumer.close()
