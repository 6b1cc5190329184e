"""The plan of a world of replicas, and what its kinds of faults change in it."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final

from tests.simulation.brokers.plan import BrokerPlan
from tests.simulation.clusters.lapses import COORDINATES, REMEMBERS
from tests.simulation.clusters.plan import UNLIMITED, ClusterPlan, make_cluster_plan

from klamm.config.broker_config import BrokerConfig

__all__ = [
    "REPLICAS",
    "compacting",
    "make_replica_plan",
    "with_compaction",
    "with_deletions",
    "with_disk_faults",
    "with_lapses",
    "with_unclean_elections",
    "without_limit",
]

REPLICAS: Final = 3
_DISKS_MS: Final = 2_500
"""How long disks fail: each fault ends only when all replicas are in sync again."""
_LAPSES_MS: Final = 3_500
"""How long faults occur in worlds with lapses: a broker may stand still for almost a second."""
_LAPSES_TROUBLE_MS: Final = 500
"""The longest time from one other fault to the next there."""
_SMALL_SEGMENTS: Final = (800, 2_000, 3_000)
_RETENTION_BYTES: Final = (-1, -1, 1_500, 3_000)
_RETENTION_MS: Final = (-1, -1, 1_500, 4_000)
_CLEANER_BACKOFFS_MS: Final = (50, 200)


def make_replica_plan(random: Random, sizes: Random) -> tuple[BrokerPlan, ClusterPlan]:
    """Draws the plans of a world with replicas."""
    plan, cluster = make_cluster_plan(random, sizes)
    has_power = random.random() < 0.6
    plan = plan._replace(
        replication_factor=REPLICAS,
        has_power_failures=has_power,
        has_kills=plan.has_kills or not has_power,
        topic_config=replace(plan.topic_config, min_insync_replicas=random.choice((1, 2, 2, 2))),
    )
    # Between two faults there must be time for some records: the metadata take up to 100 ms for a new leader.
    cluster = cluster._replace(
        has_moves=False, duration_ms=sizes.choice((600, 1_000, 2_000)), trouble_ms=sizes.choice((60, 150, 300))
    )
    kind = sizes.random()
    if kind < 0.15:
        plan = plan._replace(
            fsync="os", has_power_failures=True, topic_config=replace(plan.topic_config, min_insync_replicas=2)
        )
        return plan, cluster._replace(has_blackouts=True)
    if kind < 0.3:
        return plan, cluster
    return plan, cluster._replace(
        has_blackouts=kind > 0.8,
        has_ambushes=sizes.random() < 0.8,
        has_reassignments=sizes.random() < 0.4,
        has_min_isr_changes=sizes.random() < 0.4,
        damage_rate=sizes.choice((0.0, 0.0, 0.05, 0.2)),
    )


def without_limit(random: Random, plan: BrokerPlan, cluster: ClusterPlan) -> tuple[BrokerPlan, ClusterPlan]:
    """Returns the plans with unlimited faults. Where acknowledged records may be lost, there are only producers: what
    other clients have seen may be gone."""
    cluster = cluster._replace(
        faults=UNLIMITED,
        has_cuts=True,
        has_ambushes=True,
        has_reassignments=random.random() < 0.5,
        has_min_isr_changes=random.random() < 0.5,
    )
    if plan.fsync == "ack" or not plan.has_power_failures:
        return plan, cluster
    return _with_losses(plan, cluster)


def _with_losses(plan: BrokerPlan, cluster: ClusterPlan) -> tuple[BrokerPlan, ClusterPlan]:
    plan = plan._replace(
        transactional=(), readers=0, streams=0, members=0, producers=3, has_lookups=False, has_committer=False
    )
    return plan, cluster._replace(has_new_topics=False)


def with_disk_faults(plan: BrokerPlan, cluster: ClusterPlan) -> tuple[BrokerPlan, ClusterPlan]:
    """Returns the plans with faults of disks.

    A reassignment could leave a partition to the replica whose log has just failed, and an unregistered broker loses
    its places: then no replica has the records. With unlimited faults, a failed sync takes unsynced records as a power
    failure does.
    """
    cluster = cluster._replace(
        has_disk_faults=True, has_reassignments=False, has_unregistrations=False, duration_ms=_DISKS_MS
    )
    has_losses = cluster.faults == UNLIMITED and plan.fsync != "ack"
    return _with_losses(plan, cluster) if has_losses else (plan, cluster)


def with_lapses(plan: BrokerPlan, cluster: ClusterPlan, kind: str) -> tuple[BrokerPlan, ClusterPlan]:
    """Returns the plans of a world in which leaders or coordinators go on after their sessions."""
    cluster = cluster._replace(has_ambushes=True, duration_ms=_LAPSES_MS, trouble_ms=_LAPSES_TROUBLE_MS)
    if kind == REMEMBERS:
        # The administrator orders the replicas and elects the first one.
        return plan, cluster._replace(has_reassignments=True)
    if kind == COORDINATES:
        # A commit that arrives late may restore an earlier offset. A broker that stands still tells no metadata. The
        # client must reach the broker when it goes on.
        plan = plan._replace(has_committer=True, has_stalled_links=False, has_cut_links=False)
        return plan, cluster._replace(has_new_topics=False, has_lost_sessions=False)
    return plan, cluster


def with_deletions(draw: Random, plan: BrokerPlan, cluster: ClusterPlan) -> tuple[BrokerPlan, ClusterPlan]:
    """Returns the plans of a world in which records are deleted, and segments with them."""
    topic_config = replace(
        plan.topic_config,
        segment_bytes=draw.choice(_SMALL_SEGMENTS),
        retention_bytes=draw.choice(_RETENTION_BYTES),
        retention_ms=draw.choice(_RETENTION_MS),
    )
    return plan._replace(topic_config=topic_config), cluster._replace(has_deletions=True)


def with_compaction(plan: BrokerPlan, cluster: ClusterPlan) -> tuple[BrokerPlan, ClusterPlan]:
    """Returns the plans of a world in which the logs of internal topics are compacted."""
    topic_config = replace(plan.topic_config, min_cleanable_dirty_ratio=0.01)
    return plan._replace(topic_config=topic_config), cluster._replace(has_compaction=True)


def compacting(draw: Random, config: BrokerConfig) -> BrokerConfig:
    """Returns the configuration of a broker that compacts its internal topics often."""
    return replace(config, log_cleaner_backoff_ms=draw.choice(_CLEANER_BACKOFFS_MS))


def with_unclean_elections(plan: BrokerPlan, cluster: ClusterPlan) -> tuple[BrokerPlan, ClusterPlan]:
    """Returns the plans of a world in which replicas that are not in sync may be elected."""
    topic_config = replace(plan.topic_config, unclean_leader_election_enable=True)
    return _with_losses(plan._replace(topic_config=topic_config), cluster._replace(has_unclean_elections=True))
