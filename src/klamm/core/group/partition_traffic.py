"""What flows through partitions, as the group coordinator is told of it from time to time.

With the committed offsets of a group this gives lag and load. The core never measures: whoever owns a clock does, and
hands in a snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from klamm.protocol.types import Offset

__all__ = ["PartitionTraffic", "Traffic"]


class PartitionTraffic(NamedTuple):
    """One partition at one moment."""

    log_start_offset: Offset
    high_watermark: Offset
    arrival_rate: float
    """Records a second that were appended lately."""

    def lag_of(self, committed: Offset | None) -> int:
        """Records that a group has still to read, as far as retention has left them.

        0 without a commit: where the group will begin is for its members to say.
        """
        if committed is None:
            return 0
        return max(self.high_watermark - max(committed, self.log_start_offset), 0)


Traffic: TypeAlias = Mapping[str, Sequence[PartitionTraffic | None]]
"""By topic, then by partition index; None for a partition that is led elsewhere."""
