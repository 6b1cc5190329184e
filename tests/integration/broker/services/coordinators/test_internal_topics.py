"""The internal topic for the history of groups, next to the topic for their offsets."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, ConfigResource
from confluent_kafka.cimpl import NewTopic
from tests.support.wire import Wire

from klamm.protocol.errors import ErrorCode
from klamm.protocol.produce import ProduceRequest, ProduceTopic
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse, MetadataResponseTopic
from klamm.protocol.types import Millis
from klamm.testing import Broker

OFFSETS, HISTORY = "__consumer_offsets", "__group_history"
TOPIC = "events"
PATIENCE_S = 30
DAY_MS = 86_400_000


def live(broker: Broker) -> None:
    """Creates group history: a member joins the group, gets partitions and leaves."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "orders"})
    assigned: list[object] = []
    consumer.subscribe([TOPIC], on_assign=lambda _, partitions: assigned.extend(partitions))
    deadline = time.monotonic() + PATIENCE_S
    while not assigned and time.monotonic() < deadline:
        consumer.poll(0.1)
    consumer.close()
    assert assigned


def topics(broker: Broker) -> dict[str | None, MetadataResponseTopic]:
    """Returns the Metadata response of all topics, by name."""
    with Wire(broker.bootstrap_servers) as wire:
        return {topic.name: topic for topic in wire.call(MetadataResponse, 12, MetadataRequest(topics=None)).topics}


def wait_for_history(broker: Broker) -> None:
    """Waits until the history topic exists; the broker creates it a moment after the first change."""
    deadline = time.monotonic() + PATIENCE_S
    while HISTORY not in topics(broker):
        assert time.monotonic() < deadline, "no history"
        time.sleep(0.05)


def write_to(broker: Broker, topic: str) -> ErrorCode:
    """Writes a record to partition 0 of the topic; returns the error code."""
    records = encode_batch([(Millis(time.time_ns() // 1_000_000), b"orders", b"{}", ())])
    request = ProduceRequest(None, -1, 10_000, [ProduceTopic(topic, None, [(0, memoryview(records))])])
    with Wire(broker.bootstrap_servers) as wire:
        (answer,) = wire.produce(9, request).topics
    return ErrorCode(answer.partitions[0].error_code)


def configs_of_history(broker: Broker) -> dict[str, str | None]:
    """Returns the configuration of the history topic from DescribeConfigs."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, HISTORY)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    described = admin.describe_configs([resource])
    return {name: entry.value for name, entry in described[resource].result(30).items()}


def test_the_history_is_internal_and_has_the_partitions_of_the_offsets() -> None:
    """The history topic has as many partitions as the offsets topic, refuses clients' writes, and keeps records for
    seven days."""
    with Broker(config={"offsets.topic.num.partitions": "3"}) as broker:
        live(broker)
        wait_for_history(broker)
        told = topics(broker)
        assert [len(told[name].partitions) for name in (OFFSETS, HISTORY)] == [3, 3]
        assert {name: topic.is_internal for name, topic in told.items()} == {OFFSETS: True, HISTORY: True, TOPIC: False}
        codes = [write_to(broker, name) for name in (OFFSETS, HISTORY, TOPIC)]
        assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.INVALID_TOPIC_EXCEPTION, ErrorCode.NONE]
        configs = configs_of_history(broker)
    assert (configs["cleanup.policy"], configs["retention.ms"]) == ("delete", str(7 * DAY_MS))


@pytest.mark.parametrize("retention_ms", [str(DAY_MS), "-1"])
def test_the_history_keeps_as_long_as_it_is_said(retention_ms: str) -> None:
    """`klamm.group.history.retention.ms` sets the retention of the history topic."""
    with Broker(config={"klamm.group.history.retention.ms": retention_ms}) as broker:
        live(broker)
        wait_for_history(broker)
        assert configs_of_history(broker)["retention.ms"] == retention_ms


def test_without_history_there_is_no_topic() -> None:
    """With `klamm.group.history.enable=false` there is no history topic, when another broker has already created
    one."""
    with Broker(config={"klamm.group.history.enable": "false"}) as without, Broker() as another:
        for broker in (without, another):
            live(broker)
        wait_for_history(another)
        assert topics(without).keys() == {OFFSETS, TOPIC}
