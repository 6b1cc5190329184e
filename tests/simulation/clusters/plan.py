"""The plan of a world of several brokers: what the seed decides before the world begins."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Final, NamedTuple

from tests.simulation.brokers.plan import BrokerPlan, broker_config, make_plan

from klamm.config.broker_config import BrokerConfig
from klamm.config.listeners import Listener
from klamm.protocol.types import BrokerId

__all__ = ["MAJORITY", "UNLIMITED", "ClusterPlan", "cluster_config", "make_cluster_plan"]

MAJORITY: Final = "majority"
"""Faults that leave a majority of the replicas of each partition."""
UNLIMITED: Final = "unlimited"
"""Any faults: all brokers may fail at once."""


class ClusterPlan(NamedTuple):
    """What a world of several brokers has in addition to clients, and to the faults of each broker."""

    brokers: int
    duration_ms: int
    """How long faults occur."""
    internal_partitions: int
    """Number of partitions of each internal topic."""
    maximum_operations: int | None
    store_latency_ms: float
    watch_lag_ms: float
    unknown_rate: float
    lease_ms: int
    """The longest time that a session outlives its process."""
    has_moves: bool
    has_broken_watches: bool
    has_lost_sessions: bool
    has_cuts: bool
    """Whether connections between brokers are cut."""
    has_new_topics: bool
    load_step_ms: float
    """The longest time from one step of a coordinator's load to the next."""
    has_ambushes: bool = False
    """Whether faults strike when a replica joins or a leader begins."""
    has_blackouts: bool = False
    """Whether all brokers end at once, and some of them lose power."""
    has_reassignments: bool = False
    """Whether replicas and preferred leaders change."""
    has_min_isr_changes: bool = False
    has_unregistrations: bool = False
    """Whether live brokers are removed from the cluster, and join it again."""
    has_disk_faults: bool = False
    """Whether the disk of one broker at a time fails."""
    has_deletions: bool = False
    """Whether a client deletes records."""
    has_compaction: bool = False
    """Whether the logs of internal topics are compacted."""
    has_unclean_elections: bool = False
    """Whether `unclean.leader.election.enable` is set, so that a replica that is not in sync may be elected."""
    damage_rate: float = 0.0
    """Probability that an answer from one broker to another holds a damaged batch."""
    trouble_ms: int = 60
    """The longest time from one fault to the next."""
    faults: str = MAJORITY
    """Which faults may occur, `MAJORITY` or `UNLIMITED`."""


def make_cluster_plan(random: Random, sizes: Random) -> tuple[BrokerPlan, ClusterPlan]:
    """Draws the plans. No acknowledged record may be lost."""

    def chance(probability: float) -> bool:
        return random.random() < probability

    plan = make_plan(random, sizes)
    power = plan.has_power_failures and plan.fsync == "ack"
    topics = {"one": random.choice((2, 3, 4))} | ({"two": 2} if chance(0.3) else {})
    plan = plan._replace(
        topics=topics,
        has_failed_syncs=False,
        has_full_disk=False,
        has_power_failures=power,
        has_kills=plan.has_kills or chance(0.4),
        has_large_batches=False,
        latency_ms=min(plan.latency_ms, 3),
        sync_ms=min(plan.sync_ms, 5),
        topic_config=replace(plan.topic_config, segment_bytes=max(plan.topic_config.segment_bytes, 3_000)),
        transactional=plan.transactional or (random.choice((1, 2)),) * chance(0.7),
        producer_expiry_ms=86_400_000,
        has_committer=plan.has_committer or chance(0.4),
    )
    if plan.has_stalled_links:
        plan = plan._replace(transactional=(2,) * len(plan.transactional))
    cluster = ClusterPlan(
        brokers=random.choice((3, 3, 4, 5)),
        duration_ms=random.choice((300, 600, 1_000)),
        internal_partitions=random.choice((1, 2, 3)),
        maximum_operations=random.choice((9, 9, 128)),
        store_latency_ms=random.choice((1, 5, 20)),
        watch_lag_ms=random.choice((1, 10, 80)),
        unknown_rate=random.choice((0.0, 0.1, 0.3)),
        lease_ms=random.choice((1, 100, 400)),
        has_moves=chance(0.8),
        has_broken_watches=chance(0.5),
        has_lost_sessions=chance(0.3),
        has_cuts=chance(0.5),
        has_new_topics=chance(0.6),
        load_step_ms=random.choice((0, 0.5, 5)),
    )
    return plan, cluster


def cluster_config(plan: BrokerPlan, cluster: ClusterPlan, folder: str, number: int) -> BrokerConfig:
    """Returns the configuration of one of the brokers."""
    return replace(
        broker_config(plan, folder),
        node_id=BrokerId(number),
        listeners=(Listener("PLAINTEXT", f"broker-{number}", 9092),),
        offsets_topic_num_partitions=cluster.internal_partitions,
        transaction_state_log_num_partitions=cluster.internal_partitions,
        request_timeout_ms=1_000,
    )
