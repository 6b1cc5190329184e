"""The timers of members and groups of the consumer protocol, by their names."""

from __future__ import annotations

from klamm.core.coordinator.shard_contract import TimerKey

__all__ = [
    "back_off_timer",
    "join_timer",
    "rebalance_timer",
    "session_timer",
    "sync_timer",
    "target_timer",
]


def session_timer(group_id: str, member_id: str) -> TimerKey:
    """Names the timer that runs out when the member has not been heard of for its session timeout."""
    return ("consumer session", group_id, member_id)


def rebalance_timer(group_id: str, member_id: str) -> TimerKey:
    """Names the timer that runs out when the member has not let go of partitions for its rebalance timeout."""
    return ("consumer rebalance", group_id, member_id)


def back_off_timer(group_id: str, member_id: str) -> TimerKey:
    """Names the timer that runs out when a member that was held back may have partitions."""
    return ("consumer back-off", group_id, member_id)


def join_timer(group_id: str, member_id: str) -> TimerKey:
    """Names the timer that runs out when a member of the classic protocol, told to join again, has not in time."""
    return ("consumer join", group_id, member_id)


def sync_timer(group_id: str, member_id: str) -> TimerKey:
    """Names the timer that runs out when a member of the classic protocol has not asked for its assignment in time."""
    return ("consumer sync", group_id, member_id)


def target_timer(group_id: str) -> TimerKey:
    """Names the timer that ends the wait between two target assignments."""
    return ("consumer target", group_id)
