"""Sends the same requests in every version to klamm and to Apache Kafka, and compares the answers field by field.

The requests are in `wire_conversations`, one module for each family of APIs. Its differences.txt lists the remaining
differences with reasons; the test fails on an unlisted difference, and on a listed difference that no longer occurs.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest
from tests.interop.broker_process import BrokerProcess
from tests.interop.wire_conversations.comparison import compare, listed_differences, show
from tests.interop.wire_conversations.peer import Peer
from tests.interop.wire_conversations.talk import CONVERSATIONS
from tests.support.kafka_broker import ApacheKafka, KafkaUnavailable
from tests.support.toolchains import toolchain_is_missing

from klamm.broker.network.dispatch import ADVERTISED_VERSIONS
from klamm.protocol.api import ApiKey

pytestmark = pytest.mark.java
FAMILIES = (
    "cluster",
    "administration",
    "absent_features",
    "topics",
    "produce",
    "fetch",
    "positions",
    "group_membership",
    "group_offsets",
    "group_administration",
    "consumer_groups",
    "transaction_coordinator",
    "transactions",
)
for family in FAMILIES:
    importlib.import_module(f"tests.interop.wire_conversations.{family}")

# Settings of both brokers. Short session timeouts, because conversations wait for them to expire. Without an assignment
# interval, a request that needs a new assignment computes it at once.
CONFIG = {
    "node.id": "1",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "log.retention.ms": "-1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.assignors": "uniform,range",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "100",
}
# Features that klamm does not support yet. With version 0, Apache Kafka lists their APIs and refuses their requests.
FEATURES = {"share.version": 0, "streams.version": 0}


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Peer, Peer]]:
    """Apache Kafka and klamm, ready to serve topics and groups."""
    try:
        with ApacheKafka(CONFIG, features=FEATURES, has_static_quorum=True) as kafka:
            process = BrokerProcess(tmp_path_factory.mktemp("klamm"), CONFIG)
            pair = Peer(kafka.bootstrap_servers), Peer(process.bootstrap_servers)
            for peer in pair:
                peer.prepare()
            yield pair
            for peer in pair:
                peer.close()
            process.stop()
            assert "Traceback" not in process.log(), process.log()[-4000:]
    except KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))


@pytest.mark.parametrize("name", list(CONVERSATIONS))
def test_klamm_answers_as_apache_kafka(peers: tuple[Peer, Peer], name: str) -> None:
    """One conversation in all versions of its API shows only the listed differences between klamm and Apache Kafka."""
    found = compare(name, *peers)
    listed = listed_differences().get(name, {})
    assert found == listed, f"found:\n{show(found)}\nlisted:\n{show(listed)}"


def test_every_api_is_talked_about() -> None:
    """Conversations cover all APIs that klamm serves, except the configuration APIs, which have their own test."""
    elsewhere = {
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.LIST_CONFIG_RESOURCES,
    }
    assert {conversation.api_key for conversation in CONVERSATIONS.values()} == set(ADVERTISED_VERSIONS) - elsewhere
