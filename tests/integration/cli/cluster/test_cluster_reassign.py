"""`klamm cluster reassign`."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integration.cli.conftest import PATIENCE_S, Command, produce, until

from klamm.testing import Cluster

NewTopic = Callable[..., str]


def _replicas(klamm: Command, topic: str) -> list[str]:
    return [row["replicas"] for row in klamm.rows("topic", "describe", topic)]


def test_replicas_are_added_and_removed(cluster: Cluster, on_cluster: Command, new_topic: NewTopic) -> None:
    """--replication-factor adds replicas with all records, and removes them again; the preferred leaders stay."""
    topic = new_topic([1], [2])
    produce(cluster, topic)
    assert "2 partitions moved" in on_cluster.done("cluster", "reassign", topic, "--replication-factor", "3")
    rows = on_cluster.rows("topic", "describe", topic)
    assert [(row["leader"], sorted(row["isr"].split(","))) for row in rows] == [
        (1, ["1", "2", "3"]),
        (2, ["1", "2", "3"]),
    ]
    assert {row["lag"] for row in rows} == {0}
    on_cluster.done("cluster", "reassign", topic, "--replication-factor", "1")
    assert _replicas(on_cluster, topic) == ["1", "2"]
    assert "nothing to change" in on_cluster.done("cluster", "reassign", topic, "--replication-factor", "1")


def test_partitions_leave_a_broker(on_cluster: Command, new_topic: NewTopic) -> None:
    """--to names the only brokers that may have replicas; the others stay where they are."""
    topic = new_topic([1, 2], [2, 3], [3, 1])
    on_cluster.done("cluster", "reassign", topic, "--to", "1,2")
    assert _replicas(on_cluster, topic) == ["1,2", "2,1", "2,1"]


def test_a_dry_run_prints_a_plan_that_a_file_can_bring_back(
    on_cluster: Command, new_topic: NewTopic, tmp_path: Path
) -> None:
    """--dry-run changes nothing. Its JSON is a plan for --file, in the format of kafka-reassign-partitions."""
    topic = new_topic([1, 2])
    text = on_cluster.done("cluster", "reassign", topic, "--to", "2,3", "--dry-run")
    assert json.loads(text) == {
        "version": 1,
        "partitions": [{"topic": topic, "partition": 0, "replicas": [3, 2]}],
    }
    assert _replicas(on_cluster, topic) == ["1,2"]
    plan = tmp_path / "plan.json"
    plan.write_text(text)
    assert "1 partition moved" in on_cluster.done("cluster", "reassign", "--file", str(plan))
    assert _replicas(on_cluster, topic) == ["3,2"]
    assert "nothing to change" in on_cluster.done("cluster", "reassign", "--file", str(plan))


def test_internal_topics_get_more_replicas(cluster: Cluster, on_cluster: Command, new_topic: NewTopic) -> None:
    """--internal plans for internal topics, without naming them."""
    topic = new_topic([1, 2, 3])
    produce(cluster, topic)
    on_cluster.done("consume", topic, "-g", "readers", "-e")
    assert {len(each.split(",")) for each in _replicas(on_cluster, "__consumer_offsets")} == {3}
    on_cluster.done("cluster", "reassign", "--internal", "--replication-factor", "2")
    assert {len(each.split(",")) for each in _replicas(on_cluster, "__consumer_offsets")} == {2}
    assert _replicas(on_cluster, topic) == ["1,2,3"]


def test_a_reassignment_is_followed_interrupted_and_cancelled(
    cluster: Cluster, on_cluster: Command, new_topic: NewTopic
) -> None:
    """While the new broker can't copy, the command waits and shows what is left.

    Ctrl-C leaves the reassignment running, --status shows it, --cancel ends it.
    """
    topic = new_topic([1])
    produce(cluster, topic)
    cluster.cut(1, 2)
    try:
        running = on_cluster.start("cluster", "reassign", topic, "--to", "2")
        assert running.stdout is not None
        shown = running.stdout.readline().decode()
        assert shown.startswith("1 of 1 partition left")
        (row,) = on_cluster.rows("cluster", "reassign", "--status")
        assert (row["topic"], row["replicas"], row["adding"], row["removing"]) == (topic, "2,1", "2", "1")
        assert row["size_bytes"] > row["copied_bytes"] == 0
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=PATIENCE_S)
        assert running.returncode == 130
        assert "`klamm cluster reassign --status` shows it" in errors.decode()
        assert len(on_cluster.rows("cluster", "reassign", "--status")) == 1
        assert "nothing to change" in on_cluster.done("cluster", "reassign", topic, "--to", "2")
        assert "cancelled the reassignment of 1 partition" in on_cluster.done("cluster", "reassign", "--cancel")
    finally:
        cluster.heal()
    assert on_cluster.rows("cluster", "reassign", "--status") == []
    assert _replicas(on_cluster, topic) == ["1"]
    assert "no reassignment is in progress" in on_cluster.done("cluster", "reassign", "--cancel")


def test_a_cancelled_wait_ends_with_status_1(cluster: Cluster, on_cluster: Command, new_topic: NewTopic) -> None:
    """A command that waits tells that another one has cancelled its reassignment."""
    topic = new_topic([1])
    cluster.cut(1, 2)
    try:
        running = on_cluster.start("cluster", "reassign", topic, "--to", "2")
        assert running.stdout is not None
        running.stdout.readline()
        on_cluster.done("cluster", "reassign", "--cancel", topic)
        _, errors = running.communicate(timeout=PATIENCE_S)
    finally:
        cluster.heal()
    assert running.returncode == 1
    assert f"{topic}-0 has replicas [1] instead of [2]" in errors.decode()


def test_without_a_wait_the_reassignment_goes_on(on_cluster: Command, new_topic: NewTopic) -> None:
    """--no-wait returns when the cluster has accepted the plan."""
    topic = new_topic([1])
    assert "1 partition began to move" in on_cluster.done("cluster", "reassign", topic, "--to", "3", "--no-wait")
    until(lambda: _replicas(on_cluster, topic) == ["3"])


@pytest.mark.parametrize(
    ("words", "status", "complaint"),
    [
        ((), 2, "give --to, --replication-factor, --file, --status or --cancel"),
        (("--to", "1"), 2, "name the topics"),
        (("orders", "--to", "1,1"), 2, "takes the ids of brokers"),
        (("orders", "--to", "1", "--cancel"), 2, "do not go with"),
        (("orders", "--file", "plan.json"), 2, "give no topics"),
        (("--file", "/nonexistent/plan.json"), 2, "No such file"),
        (("missing", "--to", "1"), 1, "there is no topic missing"),
    ],
)
def test_what_can_not_be_planned_is_refused(
    on_cluster: Command, words: tuple[str, ...], status: int, complaint: str
) -> None:
    """Wrong use ends with status 2, and what the cluster does not have with status 1."""
    refused = on_cluster("cluster", "reassign", *words)
    assert refused.status == status
    assert complaint in refused.stderr


def test_too_few_brokers_and_unknown_ones_are_refused(on_cluster: Command, new_topic: NewTopic) -> None:
    """The error names the partition, or the broker."""
    topic = new_topic([1, 2])
    assert f"{topic}-0 is to have 2 replicas" in on_cluster("cluster", "reassign", topic, "--to", "1").stderr
    assert "there is no broker 9" in on_cluster("cluster", "reassign", topic, "--to", "1,9").stderr
    assert _replicas(on_cluster, topic) == ["1,2"]
