"""The plan of a world of brokers: what the seed decides before the world begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from klamm.config.broker_config import BrokerConfig
from klamm.config.topic_config import LONG_MAX, TopicConfig

__all__ = ["MEMBER_TIMEOUT_MS", "BrokerPlan", "broker_config", "make_plan"]

MEMBER_TIMEOUT_MS: Final = 250
"""The timeout of sessions and rebalances."""


class BrokerPlan(NamedTuple):
    """The broker, its topics and clients, and the faults that may occur."""

    fsync: str
    """`klamm.fsync`: with `ack` a record is committed when it is on the disk, with `os` when it is written."""
    topics: dict[str, int]
    """Number of partitions of each topic."""
    topic_config: TopicConfig
    producers: int
    transactional: tuple[int, ...]
    """The transaction version of each transactional producer."""
    transaction_timeout_ms: int
    producer_expiry_ms: int
    """`producer.id.expiration.ms`"""
    readers: int
    streams: int
    has_lookups: bool
    has_committer: bool
    lives: int
    life_ms: int
    latency_ms: float
    sync_ms: float
    """The longest duration of a sync."""
    step_ms: float
    session_slots: int
    checkpoint_ms: int
    request_timeout_ms: int
    """How long clients wait for an answer."""
    think_ms: float
    """How long clients rest between two requests, on average."""
    has_pieces: bool
    has_kills: bool
    has_power_failures: bool
    has_clean_stops: bool
    has_cut_links: bool
    has_stalled_links: bool
    has_full_disk: bool
    has_failed_syncs: bool
    members: int
    """Number of members of the one group."""
    has_consumer_protocol: bool
    """Whether the group is a consumer group (KIP-848)."""
    has_large_batches: bool = False
    """Whether some batches are larger than the readers' limits, while others are small. Readers then get records from
    files.
    """
    replication_factor: int = 1
    """Replication factor of the topics that the clients write to, and of internal topics."""

    @property
    def may_lose(self) -> bool:
        """Whether acknowledged records may be lost in a crash. Worlds with replicas keep a majority of them."""
        return (
            self.replication_factor == 1 and self.fsync == "os" and (self.has_power_failures or self.has_failed_syncs)
        )


def make_plan(random: Random, sizes: Random) -> BrokerPlan:
    """Draws a plan; no plan has all faults and clients. `sizes` decides whether batches are large."""

    def chance(probability: float) -> bool:
        return random.random() < probability

    plan = _draw(random, chance)
    if sizes.random() < 0.2:
        large_segments = replace(plan.topic_config, segment_bytes=sizes.choice((600_000, 1_000_000)))
        plan = plan._replace(has_large_batches=True, topic_config=large_segments)
    if plan.producer_expiry_ms < plan.transaction_timeout_ms:
        # With this timeout, a transaction may be open for longer than a log remembers an idle producer.
        plan = plan._replace(transaction_timeout_ms=5_000)
    if plan.may_lose:
        # Acknowledged records may be lost, and a part of a transaction with them.
        return plan._replace(transactional=())
    if plan.has_stalled_links:
        # In version 1 the next transaction has the same epoch. A request that is late by a whole transaction becomes a
        # part of it.
        return plan._replace(transactional=(2,) * len(plan.transactional))
    return plan


def _draw(random: Random, chance: Callable[[float], bool]) -> BrokerPlan:
    return BrokerPlan(
        fsync="ack" if chance(0.6) else "os",
        topics={"one": random.choice((1, 2, 3))} | ({"two": 1} if chance(0.3) else {}),
        topic_config=TopicConfig(
            segment_bytes=random.choice((800, 3_000, 100_000)),
            index_interval_bytes=random.choice((0, 200, 4_096)),
            flush_messages=random.choice((7, LONG_MAX, LONG_MAX)),
        ),
        producers=random.choice((1, 2, 2)),
        transactional=tuple(random.choice((1, 2)) for _ in range(random.choice((0, 1, 1, 2)))),
        transaction_timeout_ms=random.choice((200, 600, 5_000)),
        producer_expiry_ms=random.choice((300, 86_400_000, 86_400_000)),
        readers=random.choice((1, 1, 2)),
        streams=random.choice((0, 1, 1)),
        has_lookups=chance(0.4),
        has_committer=chance(0.3),
        lives=random.choice((1, 2, 2, 3)),
        life_ms=random.choice((200, 400, 800)),
        latency_ms=random.choice((0.5, 3, 10)),
        sync_ms=random.choice((1, 5, 60)),
        step_ms=random.choice((0, 0, 3)),
        session_slots=random.choice((1, 1_000, 1_000)),
        checkpoint_ms=random.choice((300, 60_000)),
        request_timeout_ms=random.choice((400, 2_000)),
        think_ms=random.choice((15, 30, 60)),
        has_pieces=chance(0.3),
        has_kills=chance(0.5),
        has_power_failures=chance(0.6),
        has_clean_stops=chance(0.5),
        has_cut_links=chance(0.5),
        has_stalled_links=chance(0.5),
        has_full_disk=chance(0.2),
        has_failed_syncs=chance(0.25),
        members=random.choice((0, 0, 1, 2, 3)),
        has_consumer_protocol=chance(0.5),
    )


def broker_config(plan: BrokerPlan, folder: str) -> BrokerConfig:
    """Returns the broker's configuration."""
    return BrokerConfig(
        log_dirs=(Path(folder),),
        topic_defaults=plan.topic_config,
        klamm_fsync=plan.fsync,
        klamm_group_history_enable=False,
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
        group_initial_rebalance_delay_ms=0,
        group_min_session_timeout_ms=MEMBER_TIMEOUT_MS,
        group_consumer_session_timeout_ms=MEMBER_TIMEOUT_MS,
        group_consumer_min_session_timeout_ms=MEMBER_TIMEOUT_MS,
        group_consumer_heartbeat_interval_ms=MEMBER_TIMEOUT_MS // 5,
        group_consumer_min_heartbeat_interval_ms=MEMBER_TIMEOUT_MS // 5,
        group_consumer_assignment_interval_ms=MEMBER_TIMEOUT_MS // 10,
        log_flush_offset_checkpoint_interval_ms=plan.checkpoint_ms,
        max_incremental_fetch_session_cache_slots=plan.session_slots,
        log_initial_task_delay_ms=200,
        log_retention_check_interval_ms=200,
        producer_id_expiration_ms=plan.producer_expiry_ms,
        transaction_abort_timed_out_transaction_cleanup_interval_ms=300,
        log_cleaner_dedupe_buffer_size=48_000,
        log_cleaner_io_buffer_size=16_384,
    )
