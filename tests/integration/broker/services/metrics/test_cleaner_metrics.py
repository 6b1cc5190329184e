"""Metrics of the log cleaner."""

from __future__ import annotations

import logging
import re
import time
import urllib.request
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from klamm.testing import Broker


@pytest.fixture
def page(caplog: pytest.LogCaptureFixture) -> Iterator[tuple[Broker, str]]:
    """Runs a broker whose cleaner checks the logs ten times a second; gives the broker and the address of its metrics
    page."""
    caplog.set_level(logging.INFO, "klamm.broker.server")
    with Broker(config={"klamm.metrics.listener": "127.0.0.1:0", "log.cleaner.backoff.ms": "100"}) as broker:
        (port,) = [match[1] for match in (re.search(r"port (\d+) of ", each) for each in caplog.messages) if match]
        yield broker, f"http://127.0.0.1:{port}/metrics"


def test_a_log_that_is_dirty_and_not_yet_due_shows(page: tuple[Broker, str]) -> None:
    """The metrics page shows a log that is 100 % dirty and not yet due, because its min.cleanable.dirty.ratio is
    1.0."""
    broker, address = page
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0", "segment.bytes": "1048576"}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("table", 1, 1, config=settings)])["table"].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for _ in range(3):
        producer.produce("table", key="k", value=bytes(600_000))
        assert producer.flush(30) == 0
    deadline = time.monotonic() + 60
    while True:
        with urllib.request.urlopen(address, timeout=10) as answer:
            shown = answer.read().decode()
        if "kafka_log_logcleanermanager_max_dirty_percent 100.0\n" in shown:
            break
        assert time.monotonic() < deadline, shown
        time.sleep(0.05)
    assert "kafka_log_logcleanermanager_uncleanable_partitions_count 0.0\n" in shown
