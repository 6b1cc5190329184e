"""Tests the commands that inspect groups with Apache Kafka; these commands use only Kafka's public protocol."""

from __future__ import annotations

import json
import signal
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.integration.cli.conftest import PATIENCE_S, Command
from tests.support.kafka_broker import ApacheKafka, KafkaUnavailable
from tests.support.limited_group import HOT_PARTITION, group_with_hot_partition
from tests.support.skewed_topic import HOT_KEY, RECORDS, write_skewed_records
from tests.support.toolchains import toolchain_is_missing
from tests.support.topic_readiness import wait_until_transactions_ended

pytestmark = pytest.mark.java

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@pytest.fixture(scope="module")
def kafka() -> Iterator[str]:
    """The address of an Apache Kafka broker whose consumer groups have a short heartbeat interval."""
    config = {
        "group.consumer.heartbeat.interval.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.coordinator.rebalance.protocols": "classic,consumer",
    }
    try:
        with ApacheKafka(config) as running:
            yield running.bootstrap_servers
    except KafkaUnavailable as error:
        toolchain_is_missing("java", str(error))


@pytest.fixture
def klamm(kafka: str) -> Iterator[Command]:
    """The command `klamm`, with Apache Kafka's address in its environment."""
    command = Command(kafka)
    yield command
    command.end()


@pytest.fixture
def topic(klamm: Command) -> str:
    """A topic with three partitions and four records."""
    name = f"topic-{uuid.uuid4().hex[:12]}"
    klamm.done("topic", "create", name, "-p", "3")
    klamm.done("produce", name, "-p", "0", stdin="a\nb\nc\n")
    klamm.done("produce", name, "-p", "1", stdin="d\n")
    return name


@pytest.fixture
def group() -> str:
    """The name of a group that no test has used."""
    return f"group-{uuid.uuid4().hex[:12]}"


def _until(klamm: Command, words: tuple[str, ...], is_so: Callable[[str], bool]) -> list[str]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        finished = klamm(*words)
        if finished.status == 0 and is_so(finished.stdout):
            return [line.strip().removeprefix("· ") for line in finished.stdout.splitlines()]
    raise AssertionError(finished)


def _start(klamm: Command, topic: str, group: str, protocol: str, name: str) -> Any:
    return klamm.start("consume", topic, "-g", group, "-X", f"client.id={name}", "-X", f"group.protocol={protocol}")


@PROTOCOLS
def test_explain_says_who_has_what(klamm: Command, topic: str, group: str, protocol: str) -> None:
    """Without a history, `group explain` shows each member's partitions, and since when the member has them."""
    for name in ("first", "second"):
        _start(klamm, topic, group, protocol, name)
    lines = _until(
        klamm, ("group", "explain", group), lambda text: "stable" in text and text.count(f"has {topic}") == 2
    )
    assert lines[1].startswith(f"{protocol} protocol, stable, ")
    assert lines[1].endswith(", 2 members, 3 partitions")
    assert {"first", "second"} <= set(lines)
    assert sum(line.startswith("was told of them ") for line in lines) == 2


@PROTOCOLS
def test_watch_tells_who_comes_and_goes(klamm: Command, topic: str, group: str, protocol: str) -> None:
    """`group watch` shows members that join and leave, and partitions that move."""
    _start(klamm, topic, group, protocol, "first")
    _until(klamm, ("group", "explain", group), lambda text: f"has {topic} 0-2" in text)
    watching = klamm.start("group", "watch", group, "-i", "200ms")
    assert watching.stdout is not None
    assert f"group {group}: {protocol}, " in watching.stdout.readline().decode()
    second = _start(klamm, topic, group, protocol, "second")
    told: list[str] = []
    while not any("→ second" in line for line in told):
        told.append(watching.stdout.readline().decode())
        assert told[-1], told
    assert any("second has come from 127.0.0.1" in line for line in told)
    second.send_signal(signal.SIGINT)
    while "second is gone" not in told[-1]:
        told.append(watching.stdout.readline().decode())
        assert told[-1], told


def _replayed(klamm: Command, group: str) -> list[dict[str, Any]]:
    shown = klamm.done("log", "replay", "__consumer_offsets-0", "--group", group, "--json")
    return [json.loads(line) for line in shown.splitlines()]


@PROTOCOLS
def test_replay_understands_every_record(klamm: Command, topic: str, group: str, protocol: str) -> None:
    """`log replay` understands all records of a group of either protocol that Apache Kafka wrote."""
    klamm.done("consume", topic, "-g", group, "-e", "-X", f"group.protocol={protocol}")
    *rows, last = _replayed(klamm, group)
    names = {row["name"] for row in rows}
    if protocol == "classic":
        assert names == {"GroupMetadata", "OffsetCommit"}
    else:
        assert names >= {
            "ConsumerGroupMetadata",
            "ConsumerGroupMemberMetadata",
            "ConsumerGroupTargetAssignmentMember",
            "ConsumerGroupTargetAssignmentMetadata",
            "ConsumerGroupCurrentMemberAssignment",
            "OffsetCommit",
        }
    assert last["summary"]["not_understood"] == 0
    assert [row["complaint"] for row in rows if row["complaint"]] == []
    assert any(member["assigned"] == {topic: [0, 1, 2]} for row in rows for member in row["state"]["members"])
    (state,) = last["summary"]["groups"]
    assert (state["type"], state["members"], state["offsets"]) == (protocol, [], {topic: {"0": 3, "1": 1}})


def test_replay_leaves_out_what_a_transaction_did_not_commit(
    klamm: Command, kafka: str, topic: str, group: str
) -> None:
    """`log replay` shows the offset of a committed transaction, and leaves out the offset of an aborted one."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": group, "enable.auto.commit": False})
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": group})
    producer.init_transactions(PATIENCE_S)
    for offset, end in ((1, producer.abort_transaction), (2, producer.commit_transaction)):
        producer.begin_transaction()
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata, PATIENCE_S)
        end(PATIENCE_S)
    # Waits for the marker of the last transaction, which the end of the transaction does not wait for.
    (committed,) = consumer.committed([TopicPartition(topic, 0)], PATIENCE_S)
    assert committed.offset == 2
    consumer.close()
    *rows, _ = _replayed(klamm, group)
    assert [row["value"]["offset"] for row in rows if row["name"] == "OffsetCommit"] == [2]


def test_history_says_where_it_is_kept(klamm: Command, group: str) -> None:
    """`group history` fails with Apache Kafka, which has no history topic, and names the commands that work."""
    finished = klamm("group", "history", group)
    assert (finished.status, finished.stdout) == (1, "")
    assert "has no topic __group_history: a klamm broker makes it" in finished.stderr
    assert "`klamm group watch` and `klamm group explain` work with any cluster" in finished.stderr


def test_environments_are_compared_and_cloned(klamm: Command, topic: str, group: str) -> None:
    """`group clone` and `env compare` work with Apache Kafka and show the time of the last commit."""
    klamm.done("consume", topic, "-g", f"prod.{group}", "-e")
    assert klamm.rows("group", "clone", f"prod.{group}", f"dev.{group}", "--at", "2020-01-01", "--execute")
    rows = klamm.rows("env", "compare", group)
    assert [(row["environment"], row["partition"], row["committed"], row["behind"]) for row in rows] == [
        ("dev", 0, 0, 3),
        ("prod", 0, 3, 0),
        ("dev", 1, 0, 1),
        ("prod", 1, 1, 0),
    ]
    assert all(row["last_commit"] for row in rows)


@PROTOCOLS
def test_explain_says_what_limits_a_group(klamm: Command, kafka: str, group: str, protocol: str) -> None:
    """Without a history, `group explain` measures the group, and names the partition that limits it."""
    topic = f"topic-{uuid.uuid4().hex[:12]}"
    klamm.done("topic", "create", topic, "-p", "3")
    with group_with_hot_partition(kafka, topic, group, members=4, **{"group.protocol": protocol}):
        # A partition counts from its owner's first commit on.
        others = "; 1 of 4 members is idle, 2 have no lag that grows"
        lines = _until(
            klamm,
            ("group", "explain", group, "--measure", "4s"),
            lambda text: "limited by" in text and others in " ".join(text.split()),
        )
    (limit,) = (line for line in lines if line.startswith("limited by"))
    assert limit.startswith(f"limited by {topic}-{HOT_PARTITION}: ")
    assert limit.endswith(others)


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_skew_finds_a_hot_key(klamm: Command, kafka: str, compression: str) -> None:
    """`topic skew` reads partitions, sizes on disk and keys of Apache Kafka."""
    topic = f"topic-{uuid.uuid4().hex[:12]}"
    klamm.done("topic", "create", topic, "-p", "3")
    write_skewed_records(kafka, topic, **{"compression.type": compression})
    found = json.loads(klamm.done("topic", "skew", topic, "--json"))
    assert found["sample"]["records"] == RECORDS
    assert all(each["disk_bytes"] > 0 for each in found["partitions"])
    assert (found["skew"]["cause"], found["skew"]["key"]["key"]) == ("key", HOT_KEY)
    newest = json.loads(klamm.done("topic", "skew", topic, "--json", "-n", "500"))
    assert 0 < newest["sample"]["records"] <= 500
    finished = klamm("topic", "skew", f"{topic}-2")
    assert (finished.status, finished.stdout) == (1, "")
    assert f"there is no topic {topic}-2; `klamm topic list --all` shows" in finished.stderr


def test_skew_counts_no_markers(klamm: Command, kafka: str, topic: str) -> None:
    """`topic skew` leaves out the records of aborted transactions and the markers of Apache Kafka."""
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": topic})
    producer.init_transactions(PATIENCE_S)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(topic, b"v", b"k", partition=2)
        producer.flush(PATIENCE_S)
        end(PATIENCE_S)
    wait_until_transactions_ended(kafka, topic, 3)
    found = json.loads(klamm.done("topic", "skew", topic, "--json"))
    assert [each["sample_records"] for each in found["partitions"]] == [3, 1, 1]
    assert [each["gaps"] for each in found["partitions"]] == [0, 0, 3]
