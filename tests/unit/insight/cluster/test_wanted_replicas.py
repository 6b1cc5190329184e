"""Plans from the present state of a cluster."""

from __future__ import annotations

from tests.unit.insight.canned_cluster import CannedCluster

from klamm.insight.cluster.moving_partitions import Moving
from klamm.insight.cluster.wanted_replicas import PlanOptions, plan_for

KEY = ("orders", 0)


def test_a_cordoned_broker_gets_no_new_replica() -> None:
    """A drained broker has the fewest replicas. The cluster would refuse a replica on it."""
    topics: dict[str, list[tuple[int, ...]]] = {"orders": [(1,)], "bills": [(1, 2), (2, 1)]}
    cluster = CannedCluster([1, 2, 3], topics, cordoned=[3])
    plan = plan_for(cluster, PlanOptions(topics={"orders"}, replication_factor=2))
    assert plan == {KEY: (1, 2)}


def test_a_cordoned_broker_keeps_its_replicas() -> None:
    """Only if a partition is to have fewer replicas, that of the cordoned broker goes first."""
    cluster = CannedCluster([1, 2, 3], {"orders": [(1, 3, 2)]}, cordoned=[3])
    assert plan_for(cluster, PlanOptions(topics={"orders"}, replication_factor=3)) == {}
    assert plan_for(cluster, PlanOptions(topics={"orders"}, replication_factor=2)) == {KEY: (1, 2)}


def test_a_fenced_broker_gets_no_new_replica() -> None:
    """A broker that is away could not copy anything."""
    cluster = CannedCluster([1, 2, 3], {"orders": [(1,)], "bills": [(2,)]}, fenced=[3])
    assert plan_for(cluster, PlanOptions(topics={"orders"}, replication_factor=2)) == {KEY: (1, 2)}


def test_a_partition_that_moves_is_planned_from_where_it_moves_to() -> None:
    """Also if the broker that is asked for the metadata does not know of the move yet."""
    moving = Moving("orders", 0, (1, 2, 3), adding=(3,), removing=())
    cluster = CannedCluster([1, 2, 3, 4], {"orders": [(1, 2)]}, moving=[moving])
    assert plan_for(cluster, PlanOptions(topics={"orders"}, brokers=[1, 2, 4])) == {KEY: (1, 2, 4)}


def test_of_fewer_replicas_those_in_sync_stay() -> None:
    """Otherwise, the partition would have one replica in sync where it had two."""
    cluster = CannedCluster([1, 2, 3], {"orders": [(1, 2, 3)]})
    cluster.behind = {KEY: {2}}
    assert plan_for(cluster, PlanOptions(topics={"orders"}, replication_factor=2)) == {KEY: (1, 3)}
