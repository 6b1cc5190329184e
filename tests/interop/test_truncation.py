"""Tests that a consumer detects the loss of records that it had read before a power failure (KIP-320).

Each start of the broker raises the leader epochs. A consumer that learns of a new epoch requests the end offset of the
epoch of its last record.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.interop.broker_process import BrokerProcess
from tests.interop.client_process import ClientProcess, Member
from tests.interop.conftest import BROKER_CONFIG
from tests.interop.dropped_joins import kafka_python_may_drop_a_join
from tests.interop.java_client import JavaClient

from klamm.protocol.record_batch import iterate_batches

WRITTEN, LOST, WRITTEN_AFTERWARDS = 10, 4, 8
SURVIVED = WRITTEN - LOST
_PATIENCE_S = 30
_NOT_YET = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.COORDINATOR_NOT_AVAILABLE)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker for one test, which damages its files."""
    process = BrokerProcess(tmp_path, BROKER_CONFIG)
    yield process
    process.stop()


@pytest.fixture
def topic(bootstrap: str) -> str:
    """A topic with one partition."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("readings", 1, 1)])["readings"].result(30)
    return "readings"


@pytest.fixture(
    params=[
        "confluent_kafka",
        pytest.param("kafka_python", marks=[kafka_python_may_drop_a_join]),
        pytest.param("java", marks=[pytest.mark.java]),
    ],
)
def new_client(request: pytest.FixtureRequest, bootstrap: str) -> Callable[[], ClientProcess]:
    """Returns a function that starts one of the clients that can detect a truncation."""
    if request.param == "java":
        classpath: str = request.getfixturevalue("java_client_classpath")
        return lambda: JavaClient(classpath, bootstrap)
    new_python_client: Callable[[str], ClientProcess] = request.getfixturevalue("new_python_client")
    return lambda: new_python_client(request.param)


def _write(client: ClientProcess, topic: str, prefix: str, count: int) -> None:
    for number in range(count):
        client.call("produce", topic=topic, records=[{"partition": 0, "value": f"{prefix}-{number}"}])


def _lose_power(broker: BrokerProcess, topic: str) -> None:
    """Kills the broker, removes the last batches of partition 0, as if they had never reached the disk, and restarts
    it."""
    broker.kill()
    data = broker.data_directory
    log = data / f"{topic}-0" / f"{0:020}.log"
    content = log.read_bytes()
    positions = [position for position, _ in iterate_batches(content)]
    assert len(positions) == WRITTEN
    log.write_bytes(content[: positions[SURVIVED]])
    (data / ".kafka_cleanshutdown").unlink(missing_ok=True)
    broker.start()


def _commit_start(broker: BrokerProcess, group: str, topic: str) -> None:
    """Commits offset 0, and retries while the new coordinator is not available, because librdkafka does not retry."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    request = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 0)])
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        (partition,) = admin.alter_consumer_group_offsets([request])[group].result(_PATIENCE_S).topic_partitions
        if partition.error is None:
            return
        assert partition.error.code() in _NOT_YET, str(partition.error)
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _read_and_lose(client: ClientProcess, broker: BrokerProcess, topic: str, *, group: str, reset: str) -> Member:
    """Returns a member that had read all records before the power failure, after more records were written."""
    _write(client, topic, "before", WRITTEN)
    # Without a reset policy, a group needs a committed offset to begin.
    _commit_start(broker, group, topic)
    member = client.join("reader", group, topic, auto_offset_reset=reset, enable_auto_commit="false")
    member.wait_until(lambda m: len(m.records) == WRITTEN, "reads everything")
    # A Java client that finds no broker forgets its cluster metadata (KIP-899) and joins again. It then continues from
    # the committed offset, which includes the leader epoch.
    member.commit()
    member.wait_until(lambda m: "committed" in m.names(), "commits")
    _lose_power(broker, topic)
    _write(client, topic, "after", WRITTEN_AFTERWARDS)
    return member


def test_a_consumer_without_reset_policy_is_told(
    client: ClientProcess, broker: BrokerProcess, topic: str, group: str, request: pytest.FixtureRequest
) -> None:
    """A consumer without a reset policy fails with a truncation error (LogTruncationException in Java), and reads no
    record after the power failure."""
    is_librdkafka = "confluent_kafka" in request.node.name
    member = _read_and_lose(client, broker, topic, group=group, reset="error" if is_librdkafka else "none")
    member.wait_until(lambda m: "failed" in m.names(), "fails")
    (failure,) = (event for event in member.events if event["event"] == "failed")
    assert "truncat" in (failure["error"] + failure["message"]).lower()
    assert len(member.records) == WRITTEN


def test_a_consumer_with_reset_policy_goes_back_to_where_the_logs_part(
    client: ClientProcess, broker: BrokerProcess, topic: str, group: str
) -> None:
    """A consumer with a reset policy reads all records that replace the lost ones, although its position was past their
    start."""
    member = _read_and_lose(client, broker, topic, group=group, reset="earliest")
    expected = [f"after-{number}" for number in range(WRITTEN_AFTERWARDS)]
    member.wait_until(lambda m: m.records[-1]["value"] == expected[-1], "reads what was written afterwards")
    assert [record["value"] for record in member.records][-WRITTEN_AFTERWARDS:] == expected
    assert [record["offset"] for record in member.records][-WRITTEN_AFTERWARDS:] == [
        *range(SURVIVED, SURVIVED + WRITTEN_AFTERWARDS)
    ]
