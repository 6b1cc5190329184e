"""The timers of consumer groups and of their members (KIP-848)."""

from __future__ import annotations

from typing import Final

from klamm.core.coordinator.shard_contract import TimerKey, TimerKind

__all__ = [
    "BACK_OFF",
    "JOIN",
    "LOAD_TIMER",
    "REBALANCE",
    "SESSION",
    "SYNC",
    "TARGET",
    "back_off_timer",
    "join_timer",
    "rebalance_timer",
    "session_timer",
    "sync_timer",
    "target_timer",
]

SESSION: Final = TimerKind("consumer session")
REBALANCE: Final = TimerKind("consumer rebalance")
BACK_OFF: Final = TimerKind("consumer back-off")
JOIN: Final = TimerKind("consumer join")
SYNC: Final = TimerKind("consumer sync")
TARGET: Final = TimerKind("consumer target")

LOAD_TIMER: Final = TimerKey(TimerKind("consumer load"))
"""The key of the timer that expires when it is time to weigh the next group by its load."""


def session_timer(group_id: str, member_id: str) -> TimerKey:
    """Returns the key of the timer that expires when the member has sent no heartbeat for its session timeout."""
    return TimerKey(SESSION, group_id, member_id)


def rebalance_timer(group_id: str, member_id: str) -> TimerKey:
    """Returns the key of the timer that limits how long the member may take to revoke partitions."""
    return TimerKey(REBALANCE, group_id, member_id)


def back_off_timer(group_id: str, member_id: str) -> TimerKey:
    """Returns the key of the timer that expires when a held-back member may have partitions."""
    return TimerKey(BACK_OFF, group_id, member_id)


def join_timer(group_id: str, member_id: str) -> TimerKey:
    """Returns the key of the timer that limits how long a member of the classic protocol may take to join again."""
    return TimerKey(JOIN, group_id, member_id)


def sync_timer(group_id: str, member_id: str) -> TimerKey:
    """Returns the key of the timer that limits how long a member of the classic protocol may take to send SyncGroup."""
    return TimerKey(SYNC, group_id, member_id)


def target_timer(group_id: str) -> TimerKey:
    """Returns the key of the timer that ends the wait between two target assignments."""
    return TimerKey(TARGET, group_id)
