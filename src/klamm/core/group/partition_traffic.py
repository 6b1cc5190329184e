"""Traffic of partitions, as a snapshot that the group coordinator receives from time to time.

Lag and load of a group follow from the traffic and its committed offsets. The core has no clock and measures nothing
itself: the runtime passes the snapshot in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from klamm.protocol.types import Offset

__all__ = ["PartitionTraffic", "Traffic"]


class PartitionTraffic(NamedTuple):
    """Offsets and arrival rate of one partition at one moment."""

    log_start_offset: Offset
    high_watermark: Offset
    arrival_rate: float
    """Recently appended records a second."""

    def lag_of(self, committed: Offset | None) -> int:
        """Returns how many records a group has still to read, without those that retention deleted.

        Returns 0 without a commit, because then the members decide where the group starts.
        """
        if committed is None:
            return 0
        return max(self.high_watermark - max(committed, self.log_start_offset), 0)


Traffic: TypeAlias = Mapping[str, Sequence[PartitionTraffic | None]]
"""By topic, then by partition index; None for a partition that another broker leads."""
