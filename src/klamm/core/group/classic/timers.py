"""The timers of classic groups and of their members."""

from __future__ import annotations

from typing import Final

from klamm.core.coordinator.shard_contract import TimerKey, TimerKind

__all__ = ["BATCH", "JOIN", "SESSION", "SYNC", "batch_timer", "join_timer", "session_timer", "sync_timer"]

SESSION: Final = TimerKind("session")
JOIN: Final = TimerKind("join")
SYNC: Final = TimerKind("sync")
BATCH: Final = TimerKind("batch")


def session_timer(group_id: str, member_id: str) -> TimerKey:
    """Returns the key of the timer that expires when the member has sent no heartbeat for its session timeout."""
    return TimerKey(SESSION, group_id, member_id)


def join_timer(group_id: str) -> TimerKey:
    """Returns the key of the timer that ends the wait for members to join."""
    return TimerKey(JOIN, group_id)


def sync_timer(group_id: str) -> TimerKey:
    """Returns the key of the timer that ends the wait for SyncGroup requests of members."""
    return TimerKey(SYNC, group_id)


def batch_timer(group_id: str) -> TimerKey:
    """Returns the key of the timer that ends the wait of a stable group for other members to join or leave."""
    return TimerKey(BATCH, group_id)
