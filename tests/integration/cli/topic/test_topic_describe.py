"""`klamm topic describe` of replicated topics."""

from __future__ import annotations

from collections.abc import Callable

from tests.integration.cli.conftest import Command, produce, until

from klamm.testing import Cluster

NewTopic = Callable[..., str]


def test_partitions_with_their_replicas_and_offsets(cluster: Cluster, on_cluster: Command, new_topic: NewTopic) -> None:
    """A row for each partition: brokers from the metadata, the leader's high watermark, the largest lag, all bytes."""
    topic = new_topic([1, 2], [2, 3])
    produce(cluster, topic)
    first, second = on_cluster.rows("topic", "describe", topic)
    assert first | {"size_bytes": 0} == {
        "topic": topic,
        "partition": 0,
        "leader": 1,
        "replicas": "1,2",
        "isr": "1,2",
        "elr": "",
        "last_known_elr": "",
        "high_watermark": 10,
        "lag": 0,
        "size_bytes": 0,
    }
    assert first["size_bytes"] > 2 * 10 * 100
    assert (second["leader"], second["replicas"], second["high_watermark"], second["size_bytes"]) == (2, "2,3", 0, 0)


def test_each_replica_tells_how_far_it_came(cluster: Cluster, on_cluster: Command, new_topic: NewTopic) -> None:
    """--replicas shows the log end offset and the high watermark of each replica. A follower that is cut off falls
    behind, and learns of no later high watermark."""
    topic = new_topic([1, 2, 3])
    produce(cluster, topic)
    until(lambda: [row["high_watermark"] for row in on_cluster.rows("topic", "describe", topic, "-r")] == [10] * 3)
    cluster.cut(1, 2)
    try:
        produce(cluster, topic, acks="1")
        rows = {row["broker"]: row for row in on_cluster.rows("topic", "describe", topic, "--replicas")}
    finally:
        cluster.heal()
    assert [(rows[broker]["role"], rows[broker]["log_end_offset"]) for broker in (1, 2)] == [
        ("leader", 20),
        ("follower", 10),
    ]
    assert (rows[1]["lag"], rows[2]["lag"]) == (0, 10)
    assert rows[1]["high_watermark"] >= 10
    assert rows[2]["high_watermark"] == 10
    assert all(row["size_bytes"] > 0 for row in rows.values())


def test_the_heading_shows_what_differs_from_the_default(on_cluster: Command, new_topic: NewTopic) -> None:
    """In a table, a line for each topic tells its size and the configurations that were set."""
    topics = sorted([new_topic([1], [2]), new_topic([1, 2], retention_ms="1000")])
    lines = on_cluster.done("topic", "describe", *topics).splitlines()
    headings = {line.split(":")[0].removeprefix("topic "): line for line in lines if line.startswith("topic ")}
    assert sorted(headings) == topics
    assert sum("retention.ms=1000" in line for line in headings.values()) == 1
    assert sum(": 2 partitions, 1 replica" in line for line in headings.values()) == 1
    assert sum(": 1 partition, 2 replicas" in line for line in headings.values()) == 1


def test_filters_choose_partitions_that_need_attention(
    cluster: Cluster, on_cluster: Command, new_topic: NewTopic
) -> None:
    """While a broker is away: its replicas are not in sync, partitions with two replicas are under min.insync.replicas,
    and partitions that only it has are not led. Without topics, all topics are searched. --replicas shows which replica
    is in sync, and which one is an eligible leader replica."""
    three, two, one = new_topic([1, 2, 3]), new_topic([1, 2]), new_topic([1], [2])
    names = {three: "three", two: "two", one: "one"}

    def chosen(*words: str) -> set[tuple[str, int]]:
        rows = on_cluster.rows("topic", "describe", *words)
        return {(names[row["topic"]], row["partition"]) for row in rows if row["topic"] in names}

    filters = "--under-replicated", "--under-min-isr", "--unavailable"
    assert chosen(*filters) == set()
    cluster.kill(2)
    try:
        until(lambda: chosen("--under-replicated") == {("three", 0), ("two", 0)})
        until(lambda: chosen("--unavailable") == {("one", 1)})
        assert chosen("--under-min-isr") == {("two", 0)}
        assert chosen(two, *filters) == {("two", 0)}
        (row,) = on_cluster.rows("topic", "describe", one, "--unavailable")
        assert (row["leader"], row["high_watermark"], row["lag"]) == (None, None, None)
        # Too few replicas are in sync, so the one that has gone holds every committed record.
        replicas = on_cluster.rows("topic", "describe", two, "--replicas")
        shown = [(each["broker"], each["role"], each["in_sync"], each["in_elr"]) for each in replicas]
        assert shown == [(1, "leader", True, False), (2, "follower", False, True)]
        assert (replicas[0]["log_end_offset"], replicas[1]["log_end_offset"]) == (0, None)
    finally:
        cluster.restart(2)
    until(lambda: chosen(*filters) == set())


def test_configurations_of_several_topics(on_cluster: Command, new_topic: NewTopic) -> None:
    """--configs shows all keys of each topic, with the topic's name in front."""
    topics = [new_topic([1], retention_ms="1000"), new_topic([1])]
    rows = [row for row in on_cluster.rows("topic", "describe", *topics, "--configs") if row["key"] == "retention.ms"]
    assert {row["topic"]: row["value"] for row in rows} == {topics[0]: "1000", topics[1]: "604800000"}
