"""Throttles of moving partitions."""

from __future__ import annotations

from tests.unit.insight.canned_cluster import CannedCluster

from klamm.insight.cluster.move_throttle import throttle_moves

LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"


def test_a_topic_that_was_deleted_does_not_stop_the_others() -> None:
    """Of a long plan, a topic may be deleted before its turn comes."""
    cluster = CannedCluster([1, 2], {"orders": [(1,)]})
    throttle_moves(cluster, {("gone", 0): (2,), ("orders", 0): (2,)}, 1_000)
    altered = cluster.altered()
    assert altered["orders"] == {LEADERS: "0:1", FOLLOWERS: "0:2"}
    assert altered.keys() == {"orders", "1", "2"}
