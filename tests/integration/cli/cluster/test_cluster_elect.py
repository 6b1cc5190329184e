"""`klamm cluster elect`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.integration.cli.conftest import Command, produce, until

from klamm.testing import Cluster

NewTopic = Callable[..., str]


def test_preferred_leaders_are_elected(on_cluster: Command, new_topic: NewTopic, tmp_path: Path) -> None:
    """An election moves the leader to the first replica. A second one has nothing to do; by name, it says so."""
    topic = new_topic([1, 2], [2, 1])
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [2, 1]}]}))
    on_cluster.done("cluster", "reassign", "--file", str(plan))
    elected = {"topic": topic, "partition": 0, "old_leader": 1, "new_leader": 2, "result": "elected"}
    assert elected in on_cluster.rows("cluster", "elect")
    assert "no partition needs an election" in on_cluster.done("cluster", "elect", "--preferred")
    again = on_cluster.rows("cluster", "elect", topic)
    assert [(row["partition"], row["new_leader"], row["result"]) for row in again] == [
        (0, 2, "not needed"),
        (1, 2, "not needed"),
    ]


def test_an_election_that_fails_makes_the_status_1(cluster: Cluster, on_cluster: Command, new_topic: NewTopic) -> None:
    """A preferred leader that is away can't be elected, and a partition that does not exist neither."""
    topic = new_topic([3, 1])
    cluster.kill(3)
    try:
        until(lambda: on_cluster.rows("topic", "describe", topic)[0]["leader"] == 1)
        failed = on_cluster("cluster", "elect", f"{topic}:0")
        assert failed.status == 1
        assert f"{topic}-0: PREFERRED_LEADER_NOT_AVAILABLE" in failed.stderr
    finally:
        cluster.restart(3)
    until(lambda: on_cluster.rows("topic", "describe", topic)[0]["isr"] == "3,1")
    missing = on_cluster("cluster", "elect", f"{topic}:7")
    assert missing.status == 1
    assert "UNKNOWN_TOPIC_OR_PARTITION" in missing.stderr


def test_an_unclean_election_needs_partitions_and_a_confirmation(on_cluster: Command, new_topic: NewTopic) -> None:
    """Without TOPIC:PARTITION or --yes, the command is refused; the error tells that records may be lost."""
    topic = new_topic([1, 2])
    for words in ((), (topic, "--yes"), (f"{topic}:0", topic, "--yes")):
        refused = on_cluster("cluster", "elect", "--unclean", *words)
        assert refused.status == 2
        assert "TOPIC:PARTITION" in refused.stderr
    refused = on_cluster("cluster", "elect", "--unclean", f"{topic}:0")
    assert refused.status == 2
    assert "lost for ever" in refused.stderr
    assert "not needed" in on_cluster.done("cluster", "elect", "--unclean", f"{topic}:0", "--yes")


def test_an_unclean_election_brings_a_partition_back(
    cluster: Cluster, on_cluster: Command, new_topic: NewTopic
) -> None:
    """The only in-sync replica is away: another one leads after an unclean election, without the newest records."""
    topic = new_topic([2, 3], min_insync_replicas="1")
    produce(cluster, topic)
    cluster.kill(3)
    until(lambda: on_cluster.rows("topic", "describe", topic)[0]["isr"] == "2")
    produce(cluster, topic)
    cluster.kill(2)
    cluster.restart(3)
    try:
        until(lambda: on_cluster.rows("topic", "describe", topic)[0]["leader"] is None)
        (row,) = on_cluster.rows("cluster", "elect", "--unclean", f"{topic}:0", "--yes")
        assert (row["old_leader"], row["new_leader"], row["result"]) == (None, 3, "elected")
        until(lambda: on_cluster.rows("topic", "describe", topic)[0]["high_watermark"] == 10)
    finally:
        cluster.restart(2)
    # An election of all partitions, in another test, would fail for this one.
    until(lambda: set(on_cluster.rows("topic", "describe", topic)[0]["isr"].split(",")) == {"2", "3"})
