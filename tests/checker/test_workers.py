"""A short run of the checker against several workers; `make faults` has a long one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.checker.history import Committed, Ended, Sent
from tests.checker.run import run
from tests.checker.workload.roles import Cast
from tests.interop.java_client import compile_client
from tests.support import kafka_broker
from tests.support.toolchains import toolchain_is_missing

_JAVA_CLIENTS = ("idempotent", "transactional", "classic-1", "classic-2", "consumer-1", "consumer-2")


@pytest.fixture(scope="module")
def java_classpath() -> str:
    """The class path for Java clients; skips the test without a JDK or without Kafka's jars."""
    try:
        return compile_client(kafka_broker.kafka_classpath())
    except kafka_broker.KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))


@pytest.mark.java
@pytest.mark.timeout(600)
def test_clients_of_workers_that_are_killed_in_turn(tmp_path: Path, java_classpath: str) -> None:
    """I4, I10 to I12, I16 to I18, I26: librdkafka, Java and klamm's own client see no anomaly while each of three
    workers is killed."""
    faults = ["kill a worker"] * 3
    cast = Cast.small(java_classpath)
    report = run(tmp_path, seconds=5, seed=6, faults=faults, workers=3, cast=cast)
    assert report.facts.is_whole, report.facts.end_reason
    assert report.anomalies == []
    assert "Traceback" not in report.broker_log, report.broker_log[-4000:]
    assert report.faults == {"kill a worker": 3}
    for number in (1, 2, 3):
        assert f"worker {number} was ended by signal 9" in report.broker_log
    assert {commit.group for commit in report.facts.commits} == set(cast.groups)
    at_work = {
        entry.event.process.split(".")[2]
        for entry in report.facts.entries
        if isinstance(entry.event, Sent | Ended | Committed) and entry.event.process.startswith("java-")
    }
    assert at_work == set(_JAVA_CLIENTS)
