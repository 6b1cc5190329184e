"""Metrics of a group that autoscalers read."""

from __future__ import annotations

import logging
import re
import time
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from tests.support.patience import Limit
from tests.support.wire import Wire

from klamm.cli.main import main
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_describe_response import ConsumerGroupDescribeResponse
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribeGroupsResponse
from klamm.testing import Broker

PATIENCE_S = 20
LINE = re.compile(r"port (\d+) of ")


@pytest.fixture
def page(caplog: pytest.LogCaptureFixture) -> Iterator[tuple[Broker, str]]:
    """Runs a broker that measures ten times a second; gives the broker and the address of its metrics page."""
    caplog.set_level(logging.INFO, "klamm.broker.server")
    with Broker(config={"klamm.metrics.listener": "127.0.0.1:0", "klamm.group.traffic.interval.ms": "100"}) as broker:
        (port,) = [match[1] for match in map(LINE.search, caplog.messages) if match]
        yield broker, f"http://127.0.0.1:{port}/metrics"


def figure(address: str, name: str) -> float | None:
    """Returns the value of a gauge for the group, or None."""
    with urllib.request.urlopen(address, timeout=10) as answer:
        text = answer.read().decode()
    found = re.search(rf'^{name}{{group="orders"}} (\S+)$', text, re.MULTILINE)
    return None if found is None else float(found[1])


def members_needed_for_others(wire: Wire, protocol: str) -> int:
    """Returns the `members_needed` field that a client other than klamm's tools gets."""
    if protocol == "consumer":
        asked = ConsumerGroupDescribeRequest(group_ids=["orders"])
        return wire.call(ConsumerGroupDescribeResponse, 1, asked).groups[0].members_needed
    return wire.call(DescribeGroupsResponse, 6, DescribeGroupsRequest(groups=["orders"])).groups[0].members_needed


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_lag_and_members_of_a_group_are_on_the_page(
    page: tuple[Broker, str], capsys: pytest.CaptureFixture[str], protocol: str
) -> None:
    """The metrics page shows the lag and the members of a group of either protocol. The lag falls as the group commits;
    a gauge without a value yet is missing."""
    broker, address = page
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(100):
        producer.produce("events", str(number))
    producer.flush()
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "orders",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["events"])
    for _ in range(40):
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
    consumer.commit(asynchronous=False)
    limit = Limit(PATIENCE_S)
    while figure(address, "klamm_group_lag_records") != 60 and not limit.is_over:
        time.sleep(0.1)
    assert figure(address, "klamm_group_lag_records") == 60
    assert figure(address, "klamm_group_members") == 1
    assert figure(address, "klamm_group_members_needed") is None
    for _ in range(60):
        assert consumer.poll(60) is not None
    time.sleep(1)  # The broker reads commits at most once a second.
    consumer.commit(asynchronous=False)
    limit = Limit(PATIENCE_S)
    while figure(address, "klamm_group_members_needed") is None and not limit.is_over:
        time.sleep(0.1)
    assert figure(address, "klamm_group_members_needed") == 1
    assert figure(address, "klamm_group_lag_records") == 0
    assert main(["group", "describe", "orders", "--bootstrap-server", broker.bootstrap_servers]) == 0
    assert "1 member, lag 0, 1 needed" in "".join(capsys.readouterr())
    with Wire(broker.bootstrap_servers) as another:
        # Other clients get only Kafka's fields.
        assert members_needed_for_others(another, protocol) == -1
    consumer.close()
