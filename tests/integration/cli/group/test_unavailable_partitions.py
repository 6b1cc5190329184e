"""The lag of a group, one of whose partitions has no leader."""

from __future__ import annotations

from collections.abc import Callable

from tests.integration.cli.conftest import Command, until

from klamm.testing import Cluster


def test_a_partition_without_a_leader_is_not_called_uncommitted(
    cluster: Cluster, on_cluster: Command, new_topic: Callable[..., str], group: str
) -> None:
    """The group has a commit, and the end of the partition can't be read. The lag of the others is known."""
    topic = new_topic([1], [3])
    for partition in ("0", "1"):
        on_cluster.done("produce", topic, "-p", partition, stdin="a\nb\n")
    on_cluster.done("consume", topic, "-g", group, "-e")
    on_cluster.done("produce", topic, "-p", "0", stdin="c\n")
    cluster.kill(3)
    try:
        until(lambda: on_cluster.rows("topic", "describe", topic)[1]["leader"] is None)
        assert "lag ≥ 1 (1 partition unavailable)" in on_cluster.done("group", "describe", group)
        explained = on_cluster.done("group", "explain", group, "--measure", "0s")
        assert f"the end of {topic} 1 can't be read now" in explained
        assert "nothing is committed" not in explained
        reset = on_cluster("group", "reset", group, "--by-duration", "1h", "--execute")
        assert (reset.status, f"can't look up {topic}-1" in reset.stderr) == (1, True)
    finally:
        cluster.restart(3)
