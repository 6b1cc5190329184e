"""Tests that Apache Kafka's Java admin client works with klamm as with Apache Kafka."""

from __future__ import annotations

import itertools
import time
import uuid
from typing import Any

import pytest
from tests.interop.client_process import ClientError
from tests.interop.java_client import JavaClient

# A fixed time that is recent enough for the retention time.
MINUTES_AGO = int(time.time() - 600) * 1_000

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]


def _fill(java: JavaClient, topic: str, count: int) -> None:
    """Writes `count` records to each of the first three partitions, with timestamps one second apart."""
    records = [
        {"partition": partition, "value": f"{number}", "timestamp": MINUTES_AGO + 1_000 * number}
        for number, partition in itertools.product(range(count), range(3))
    ]
    java.call("produce", topic=topic, records=records, config={"batch.size": "100", "linger.ms": "0"})


def _error(java: JavaClient, operation: str, /, **arguments: Any) -> str:
    with pytest.raises(ClientError) as caught:
        java.call(operation, **arguments)
    return caught.value.name


def test_a_topic_lives_from_creation_to_deletion(java: JavaClient) -> None:
    """A topic is created with its settings, described by name and by id, enlarged, and deleted."""
    name = f"created-{uuid.uuid4().hex[:8]}"
    created = java.call("create topic", topic=name, count=2, configs={"retention.ms": "86400000"})
    assert (created["partitions"], created["replication_factor"], created["retention_ms"]) == (2, 1, "86400000")
    described = java.call("describe topic", topic=name)
    assert described == java.call("describe topic", id=created["id"])
    assert described["name"] == name
    assert described["partitions"] == 2
    assert described["in_sync"]
    assert not described["internal"]
    assert name in java.call("list topics")
    java.call("add partitions", topic=name, count=5)
    java.wait_until(lambda: _partitions(java, name) == 5, lambda: "never saw five partitions")
    java.call("delete topic", topic=name)
    java.wait_until(lambda: name not in java.call("list topics"), lambda: "is still listed")
    assert _error(java, "describe topic", topic=name) == "UnknownTopicOrPartitionException"
    assert _error(java, "describe topic", id=created["id"]) == "UnknownTopicIdException"


def _partitions(java: JavaClient, name: str) -> int:
    """Returns the number of a topic's partitions according to the broker."""
    partitions: int = java.call("describe topic", topic=name)["partitions"]
    return partitions


def test_what_cannot_be_created_is_refused(java: JavaClient, topic: str) -> None:
    """The broker refuses a topic that exists, has a bad name, no partitions or a bad setting, with Kafka's
    exceptions."""
    assert _error(java, "create topic", topic=topic, count=1) == "TopicExistsException"
    assert _error(java, "create topic", topic="not/a/name", count=1) == "InvalidTopicException"
    assert _error(java, "create topic", topic="x" * 250, count=1) == "InvalidTopicException"
    assert _error(java, "create topic", topic="empty", count=0) == "InvalidPartitionsException"
    bad = {"retention.ms": "soon"}
    assert _error(java, "create topic", topic="bad", count=1, configs=bad) == "InvalidConfigurationException"
    assert _error(java, "add partitions", topic=topic, count=3) == "InvalidPartitionsException"
    assert _error(java, "add partitions", topic="missing", count=3) == "UnknownTopicOrPartitionException"
    assert _error(java, "delete topic", topic="missing") == "UnknownTopicOrPartitionException"


def test_topic_settings_are_changed_and_reset(java: JavaClient, topic: str) -> None:
    """A topic setting shows its source; it can be set, appended to and deleted, and the broker refuses an invalid
    value."""
    before = java.call("topic config", topic=topic)
    assert before["cleanup.policy"] == ["delete", "DEFAULT_CONFIG", "LIST"]
    java.call("set topic config", topic=topic, operation="SET", key="retention.ms", value="1000")
    java.call("set topic config", topic=topic, operation="APPEND", key="cleanup.policy", value="compact")
    changed = java.call("topic config", topic=topic)
    assert changed["retention.ms"] == ["1000", "DYNAMIC_TOPIC_CONFIG", "LONG"]
    assert set(changed["cleanup.policy"][0].split(",")) == {"delete", "compact"}
    java.call("set topic config", topic=topic, operation="DELETE", key="retention.ms")
    java.call("set topic config", topic=topic, operation="DELETE", key="cleanup.policy")
    assert java.call("topic config", topic=topic) == before
    bad = {"topic": topic, "operation": "SET", "key": "retention.ms"}
    assert _error(java, "set topic config", **bad, value="soon") == "InvalidConfigurationException"


def test_offsets_are_listed(java: JavaClient, topic: str) -> None:
    """Offsets are listed by earliest, latest, timestamp and largest timestamp; the offset is -1 without a matching
    record."""
    _fill(java, topic, 5)
    partitions = {"topic": topic, "partitions": [0, 1, 2, 3]}
    assert java.call("list offsets", **partitions, spec="earliest") == {f"{n}": [0, -1] for n in range(4)}
    latest = java.call("list offsets", **partitions, spec="latest")
    assert latest == {"0": [5, -1], "1": [5, -1], "2": [5, -1], "3": [0, -1]}
    timed = java.call("list offsets", **partitions, spec=MINUTES_AGO + 1_500)
    assert timed == {"3": [-1, -1], **{f"{n}": [2, MINUTES_AGO + 2_000] for n in range(3)}}
    largest = java.call("list offsets", **partitions, spec="max timestamp")
    assert largest == {"3": [-1, -1], **{f"{n}": [4, MINUTES_AGO + 4_000] for n in range(3)}}
    assert java.call("list offsets", **partitions, spec=MINUTES_AGO + 9_000)["0"] == [-1, -1]


def test_records_are_deleted_up_to_an_offset(java: JavaClient, topic: str) -> None:
    """Deleting records moves the log start offset; -1 deletes all records, and an offset beyond the end is refused."""
    _fill(java, topic, 5)
    partitions = {"topic": topic, "partitions": [0, 1]}
    assert java.call("delete records", **partitions, before=3) == {"0": 3, "1": 3}
    assert java.call("list offsets", **partitions, spec="earliest") == {"0": [3, -1], "1": [3, -1]}
    arrived = java.call("read", topic=topic, **{"from": "earliest"})
    assert sorted(record["offset"] for record in arrived if record["partition"] == 0) == [3, 4]
    assert _error(java, "delete records", **partitions, before=6) == "OffsetOutOfRangeException"
    assert java.call("delete records", **partitions, before=-1) == {"0": 5, "1": 5}


def test_the_cluster_is_described(java: JavaClient, bootstrap: str) -> None:
    """DescribeCluster returns one broker, with the address that the client used, and a cluster id."""
    cluster = java.call("describe cluster")
    assert cluster["brokers"] == [bootstrap]
    assert cluster["id"]


def test_the_size_on_disk_is_told(java: JavaClient, topic: str) -> None:
    """Every partition of a topic has a size on disk, which is above zero when the partition contains records."""
    _fill(java, topic, 5)
    sizes = java.call("describe log dirs", topic=topic)
    assert set(sizes) == {f"{number}" for number in range(6)}
    assert sizes["0"] > 0
    assert sizes["5"] == 0


def test_a_group_is_described_with_its_members(java: JavaClient, topic: str, group: str) -> None:
    """A group is listed and described with its state, assignor, members and their partitions. While the group has
    members, the broker refuses to delete the group or its offsets, or to alter its offsets."""
    members = [java.join(f"member-{number}", group, topic) for number in range(2)]
    for member in members:
        member.wait_until(lambda m: len(m.assignment or []) == 3, "owns half")
    described = java.call("describe group", group=group)
    assert (described["state"], described["type"], described["assignor"]) == ("STABLE", "CLASSIC", "range")
    assert sorted(member["client_id"] for member in described["members"]) == ["member-0", "member-1"]
    assert {member["host"] for member in described["members"]} == {"/127.0.0.1"}
    assert sorted(n for member in described["members"] for n in member["partitions"]) == list(range(6))
    assert group in java.call("list groups")
    assert _error(java, "delete group", group=group) == "GroupNotEmptyException"
    assert _error(java, "delete group offsets", group=group, topic=topic, partitions=[0]) == (
        "GroupSubscribedToTopicException"
    )
    alter = {"group": group, "topic": topic, "partitions": [0], "offset": 0}
    assert _error(java, "alter group offsets", **alter) == "UnknownMemberIdException"
    for member in members:
        member.leave()
    assert java.call("describe group", group=group)["state"] == "EMPTY"


def test_offsets_of_a_group_are_altered_and_deleted(java: JavaClient, topic: str, group: str) -> None:
    """Offsets of a group without members are set with metadata, deleted one by one, and deleted with the group."""
    partitions = {"group": group, "topic": topic}
    java.call("alter group offsets", **partitions, partitions=[0, 1, 2], offset=7, metadata="set by hand")
    expected = {f"{number}": [7, "set by hand"] for number in range(3)}
    assert java.call("group offsets", group=group) == expected
    java.call("delete group offsets", **partitions, partitions=[1])
    del expected["1"]
    assert java.call("group offsets", group=group) == expected
    java.call("delete group", group=group)
    assert java.call("group offsets", group=group) == {}
    assert _error(java, "describe group", group=group) == "GroupIdNotFoundException"
    assert _error(java, "delete group", group=group) == "GroupIdNotFoundException"
