"""Decisions on groups for which Kafka's protocol has no request: rebalance now, end a session. Tests ask for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from klamm.protocol.types import PartitionIndex
from klamm.runtime.coordinator_runtime import CoordinatorRuntime

if TYPE_CHECKING:
    from klamm.core.group.shard import GroupShard

__all__ = ["GroupAdministration"]


class GroupAdministration:
    """Decisions on the groups that this broker coordinates. `partition_for` returns the partition of a group."""

    def __init__(self, runtime: CoordinatorRuntime[GroupShard], partition_for: Callable[[str], PartitionIndex]) -> None:
        self._runtime = runtime
        self._partition_for = partition_for

    def rebalance(self, group_id: str) -> None:
        """Lets the group rebalance. Raises KafkaError: GROUP_ID_NOT_FOUND, NOT_COORDINATOR."""
        self._runtime.decide(self._partition_for(group_id), lambda shard, now: shard.rebalance(group_id, now))

    def end_session(self, group_id: str, member_id: str) -> None:
        """Removes the member from the group as if its session had timed out.

        Raises KafkaError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, NOT_COORDINATOR.
        """
        partition = self._partition_for(group_id)
        self._runtime.decide(partition, lambda shard, now: shard.end_session(group_id, member_id, now))
