"""The plan of a world of workers: what the seed decides before the world begins."""

from __future__ import annotations

from typing import NamedTuple

from tests.simulation.loop import EventLoop

from klamm.core.delivery.record_delivery import Order

__all__ = ["DeliveryPlan", "make_plan"]


class DeliveryPlan(NamedTuple):
    """The topic, the members, their settings, and the faults that may occur."""

    partitions: int
    records: int
    keys: int
    hot_share: float
    """The share of the records that have the hot key."""
    keyless_share: float
    gap_share: float
    """The share of offsets that have no record, as in a compacted topic."""
    members: int
    order: Order
    concurrency: int
    batch: int
    within_ms: int
    attempts: int
    deadline_s: float | None
    handler_ms: int
    slow_share: float
    """The share of records whose handler takes twenty times as long."""
    failure_rate: float
    poison_share: float
    """The share of records whose handler always fails."""
    undecodable_share: float
    window_records: int
    note_characters: int
    poll_ms: int
    poll_records: int
    commit_ms: int
    commit_latency_ms: int
    drain_ms: int
    session_ms: int
    is_cancellable: bool
    """Whether handlers end at once when their partition is lost, as coroutines do; threads go on."""
    has_crashes: bool
    has_revocations: bool
    has_losses: bool
    has_lost_commits: bool
    trouble_ends_ms: int


def make_plan(loop: EventLoop) -> DeliveryPlan:
    """Returns the plan of a seed; the random generator must be unused."""
    random, chance = loop.random, loop.chance
    batch = random.choice((1, 1, 1, 3, 10))
    return DeliveryPlan(
        partitions=loop.between(1, 4),
        records=random.choice((60, 150, 300)),
        keys=random.choice((1, 3, 20, 200)),
        hot_share=random.choice((0.0, 0.1, 0.6)),
        keyless_share=random.choice((0.0, 0.0, 0.3)),
        gap_share=random.choice((0.0, 0.0, 0.2, 0.9)),
        members=loop.between(1, 3),
        order=random.choice(("key", "key", "key", "partition", "none")),
        concurrency=random.choice((1, 2, 5, 20)),
        batch=batch,
        within_ms=random.choice((0, 50, 400)) if batch > 1 else 0,
        attempts=random.choice((1, 2, 4)),
        deadline_s=random.choice((None, None, 0.4)),
        handler_ms=random.choice((1, 10, 60)),
        slow_share=random.choice((0.0, 0.02, 0.1)),
        failure_rate=random.choice((0.0, 0.05, 0.3)),
        poison_share=random.choice((0.0, 0.0, 0.03)),
        undecodable_share=random.choice((0.0, 0.0, 0.03)),
        window_records=random.choice((4, 20, 60, 10_000)),
        note_characters=random.choice((0, 150, 200, 4096)),
        poll_ms=random.choice((5, 20, 100)),
        poll_records=random.choice((1, 5, 50)),
        commit_ms=random.choice((20, 100, 500)),
        commit_latency_ms=random.choice((1, 5, 80)),
        drain_ms=random.choice((0, 50, 400, 3_000)),
        session_ms=random.choice((300, 1_000)),
        is_cancellable=chance(0.5),
        has_crashes=chance(0.5),
        has_revocations=chance(0.6),
        has_losses=chance(0.5),
        has_lost_commits=chance(0.3),
        trouble_ends_ms=random.choice((1_000, 3_000)),
    )
