"""Tests workers that are killed again and again: I24 and I25 hold for the records of all processes.

`make faults` handles 100,000 records. A failure names the folder with the events of all processes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.kafka_broker import ApacheKafka, KafkaUnavailable
from tests.support.worker_kills import WorkerGroup, produce_records

from klamm.testing import Broker

IS_LONG = "KLAMM_FAULT_ROUNDS" in os.environ
RECORDS = 100_000 if IS_LONG else 6_000
KILLS = 8 if IS_LONG else 1
# A worker that stops for longer than its session would begin records that its successor has committed.
SESSION_MS = 10_000
SETTINGS = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": 200}
PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"settings": SETTINGS},
    "consumer": {"protocol": "consumer"},
    "static": {"settings": SETTINGS, "is_static": True},
}
CONFIG = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("protocol", PROTOCOLS if IS_LONG else ["consumer"])
def test_killed_workers_on_klamm(tmp_path: Path, protocol: str) -> None:
    """Every record is handled, the records of a key in order within each owner, and none that was committed again."""
    with Broker(config=CONFIG) as broker:
        handle_with_kills(broker.bootstrap_servers, tmp_path, protocol)


@pytest.mark.java
@pytest.mark.timeout(900)
@pytest.mark.skipif(not IS_LONG, reason="make faults runs this")
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_killed_workers_on_apache_kafka(tmp_path: Path, protocol: str) -> None:
    """Workers do the same on Apache Kafka."""
    try:
        kafka = ApacheKafka(CONFIG)
    except KafkaUnavailable as missing:
        pytest.skip(str(missing))
    with kafka as broker:
        handle_with_kills(broker.bootstrap_servers, tmp_path, protocol)


def handle_with_kills(bootstrap: str, folder: Path, protocol: str) -> None:
    """Produces records, handles them with three workers, kills workers, and checks what happened."""
    produce_records(bootstrap, RECORDS)
    seconds = 0.005 if IS_LONG else 0.02
    group = WorkerGroup(bootstrap, folder, {"handler_seconds": seconds, "concurrency": 16, **PROTOCOLS[protocol]})
    group.run(members=3, kills=KILLS, seed=1)
    repeated = group.check(RECORDS)
    print(f"{protocol}: {group.kills} kills, {repeated} of {RECORDS} records were handled again")
