"""Tests that Apache Kafka's own command line tools print the same for klamm as for Apache Kafka."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.interop.broker_process import BrokerProcess
from tests.interop.kafka_tools.comparison import differences, masked_steps, read_listed, show
from tests.support.kafka_broker import ApacheKafka

pytestmark = [pytest.mark.java, pytest.mark.timeout(300)]

_FOLDER = Path(__file__).parent

# The settings of tests.support.kafka_broker for Apache Kafka, without those for KRaft.
_CONFIG = {
    "node.id": "1",
    "num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.check.interval.ms": "1000",
}


def _run(classpath: str, bootstrap: str) -> Mapping[str, list[str]]:
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", classpath, "Tools.java", "script.txt", bootstrap]
    ran = subprocess.run(command, cwd=_FOLDER, capture_output=True, text=True, check=False, timeout=240)
    assert ran.returncode == 0, ran.stderr
    return masked_steps(ran.stdout)


def test_the_tools_print_the_same_for_klamm_and_for_apache_kafka(kafka_classpath: str, tmp_path: Path) -> None:
    """The tools print only the differences that differences.txt lists with a reason, and every listed difference
    occurs."""
    # With version 0, Apache Kafka refuses the features that klamm does not support yet.
    features = {"share.version": 0, "streams.version": 0}
    with ApacheKafka(features=features, has_static_quorum=True) as kafka, ThreadPoolExecutor(2) as pool:
        klamm = BrokerProcess(tmp_path, _CONFIG)
        try:
            brokers = [kafka.bootstrap_servers, klamm.bootstrap_servers]
            by_kafka, by_klamm = pool.map(_run, [kafka_classpath] * 2, brokers)
        finally:
            klamm.stop()
    found = differences(by_kafka, by_klamm)
    assert "Traceback" not in klamm.log()
    listed = read_listed((_FOLDER / "differences.txt").read_text(encoding="utf-8"))
    new = {step: lines for step, lines in found.items() if listed.get(step) != lines}
    gone = {step: lines for step, lines in listed.items() if step not in found}
    assert not new, f"differences that differences.txt doesn't list like this:\n{show(new)}"
    assert not gone, f"differences.txt lists what no longer occurs:\n{show(gone)}"
