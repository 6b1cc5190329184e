"""Builds the history of groups of one broker, and loads its code."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from klamm.broker.services.coordinators.coordinator_ports import LoopTimers
from klamm.broker.services.coordinators.lazy_history import LazyHistory
from klamm.protocol.errors import KafkaError
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC

if TYPE_CHECKING:
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.broker.services.coordinators.internal_topics import InternalTopics
    from klamm.protocol.types import LeaderEpoch, Millis, PartitionIndex
    from klamm.runtime.group_coordinator import GroupCoordinator
    from klamm.runtime.history_writer import GroupHistory
    from klamm.runtime.ports import Executor

__all__ = ["history_of_groups"]


def history_of_groups(
    partitions: PartitionRegistry,
    groups: GroupCoordinator,
    internal_topics: InternalTopics,
    executor: Executor,
    clock: Callable[[], Millis],
) -> LazyHistory:
    """Returns the history of the groups that `groups` coordinates. Must be called on the running event loop."""
    timers = LoopTimers(asyncio.get_running_loop())

    def leader_epoch(index: PartitionIndex) -> LeaderEpoch | None:
        try:
            return partitions.get(OFFSETS_TOPIC, index).leader_epoch
        except KafkaError:
            return None  # led elsewhere now

    def begin() -> GroupHistory:
        from klamm.broker.services.coordinators.history_topic import HistoryTopic
        from klamm.runtime.history_writer import GroupHistory

        return GroupHistory(
            log=HistoryTopic(partitions, clock, internal_topics.ensure),
            timers=timers,
            executor=executor,
            coordinator_epoch=leader_epoch,
            committed_offsets=groups.committed_offsets,
            wall_clock=clock,
        )

    return LazyHistory(timers, executor, load=_load_code, begin=begin)


def _load_code() -> None:
    import klamm.broker.services.coordinators.history_topic
    import klamm.runtime.history_writer  # noqa: F401 - many modules, for `begin` on the event loop
