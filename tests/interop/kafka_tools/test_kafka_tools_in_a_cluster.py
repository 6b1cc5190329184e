"""Tests that Apache Kafka's tools print the same for three brokers of klamm as for three nodes of Apache Kafka."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.interop.kafka_tools.comparison import differences, masked_steps, read_listed, show
from tests.support.kafka_cluster import KafkaCluster
from tests.support.share_of_gate import is_in_share_of_gate

from klamm.testing import Cluster

pytestmark = [
    pytest.mark.java,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not is_in_share_of_gate("Kafka's tools on several brokers", 3),
        reason="the gate runs it for a third of the commits",
    ),
]

_FOLDER = Path(__file__).parent


def _run(classpath: str, bootstrap: str) -> Mapping[str, list[str]]:
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", classpath, "Tools.java", "cluster_script.txt", bootstrap]
    ran = subprocess.run(command, cwd=_FOLDER, capture_output=True, text=True, check=False, timeout=240)
    assert ran.returncode == 0, ran.stderr
    return masked_steps(ran.stdout)


def test_the_tools_print_the_same_for_several_brokers(kafka_classpath: str) -> None:
    """Replicas that are given, partitions that move, and leaders that are elected: the tools print only the differences
    that cluster_differences.txt lists with a reason, and every listed difference occurs."""
    brokers = Cluster(3, replication_factor=3, config={"min.insync.replicas": "2"})
    with KafkaCluster(transaction_version=2) as kafka, brokers as klamm, ThreadPoolExecutor(2) as pool:
        addresses = [kafka.bootstrap_servers, klamm.bootstrap_servers]
        by_kafka, by_klamm = pool.map(_run, [kafka_classpath] * 2, addresses)
    found = differences(by_kafka, by_klamm)
    listed = read_listed((_FOLDER / "cluster_differences.txt").read_text(encoding="utf-8"))
    new = {step: lines for step, lines in found.items() if listed.get(step) != lines}
    gone = {step: lines for step, lines in listed.items() if step not in found}
    assert not new, f"differences that cluster_differences.txt doesn't list like this:\n{show(new)}"
    assert not gone, f"cluster_differences.txt lists what no longer occurs:\n{show(gone)}"
