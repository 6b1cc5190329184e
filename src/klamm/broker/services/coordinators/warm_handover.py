"""Prepares partitions for the members that they move to.

When a consumer group has a new target assignment, the moved partitions are known before their owners revoke them. The
new owners will resume from the committed offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from klamm.core.group.events import TargetChosen
from klamm.protocol.errors import KafkaError
from klamm.protocol.types import Offset, PartitionIndex

if TYPE_CHECKING:
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.broker.partitions.warm_reads import WarmReads

__all__ = ["WarmHandover"]

_MOVES_AT_ONCE: Final = 64
"""Most partitions of one change that are read ahead: more warm reads would evict the first ones."""


class WarmHandover:
    """A listener for group events that starts warm reads."""

    def __init__(self, partitions: PartitionRegistry, warm_reads: WarmReads) -> None:
        self._partitions = partitions
        self._warm_reads = warm_reads

    def on_events(self, partition: PartitionIndex, events: Sequence[object]) -> None:
        """Reads ahead, from its committed offset, each partition that an event moves to a member."""
        for event in events:
            if isinstance(event, TargetChosen):
                moves = [move for move in event.moved if move.to_member is not None]
                for move in moves[:_MOVES_AT_ONCE]:
                    if move.committed_offset is not None:
                        self._prepare(move.topic, move.partition, move.committed_offset)

    def _prepare(self, topic: str, index: PartitionIndex, offset: Offset) -> None:
        try:
            partition = self._partitions.get(topic, index)
        except KafkaError:
            return  # The partition is led elsewhere, or was deleted meanwhile.
        self._warm_reads.prepare(partition, offset)
