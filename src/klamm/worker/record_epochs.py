"""The leader epochs of records, for commits: a commit has the epoch of the last record before its offset (KIP-320).

With the epoch, a consumer that continues at the commit finds out whether the log was truncated below it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING

from klamm.protocol.types import LeaderEpoch, Offset, TopicPartition

if TYPE_CHECKING:
    from klamm.core.delivery.work import Received

__all__ = ["RecordEpochs"]


class RecordEpochs:
    """The leader epochs of the records that one member has received. One thread uses it."""

    def __init__(self) -> None:
        self._starts: dict[TopicPartition, list[tuple[Offset, LeaderEpoch]]] = {}
        """For each partition, the first offset of each epoch, in order."""

    def begin(self, partition: TopicPartition, position: Offset | None, epoch: int | None) -> None:
        """Begins an ownership at a committed position, with the epoch of the commit if it has one."""
        self._starts[partition] = [] if not position or epoch is None else [(Offset(position - 1), LeaderEpoch(epoch))]

    def note(self, partition: TopicPartition, received: Sequence[Received]) -> None:
        """Notes the epochs of records, in the order of their offsets. Each record is a message of librdkafka."""
        starts = self._starts.setdefault(partition, [])
        while starts and starts[-1][0] >= received[0].offset:
            starts.pop()  # the log was cut, or the partition is read again
        if starts and received[-1].record.leader_epoch() == starts[-1][1]:
            return  # epochs never fall, so all records between have the same
        for each in received:
            epoch = each.record.leader_epoch()
            if epoch is not None and (not starts or epoch != starts[-1][1]):
                starts.append((each.offset, LeaderEpoch(epoch)))

    def before(self, partition: TopicPartition, offset: Offset) -> LeaderEpoch | None:
        """Returns the epoch of the last record before the offset; None if it is not known."""
        starts = self._starts.get(partition, [])
        at = bisect_left(starts, offset, key=lambda start: start[0])
        return starts[at - 1][1] if at else None
