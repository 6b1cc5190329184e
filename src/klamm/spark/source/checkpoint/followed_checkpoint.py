"""The checkpoint of another query that a query follows: it never reads beyond that query's finished micro-batches.

The dead letters of a flow follow the flow. So a change of what makes a record bad finds both at the same record,
whenever both have ended in order.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Final

from klamm.protocol.types import Offset, TopicPartition
from klamm.spark.folders import Folder, absolute_location, folder_at, without_credentials
from klamm.spark.source.checkpoint.finished_offsets import newest_batch, planned_end
from klamm.spark.source.offsets import PartitionOffsets

__all__ = ["FollowedCheckpoint"]

_logger = logging.getLogger(__name__)

# An idle query asks dozens of times a second, and the checkpoint may be in an object store.
_INTERVAL_S: Final = 1.0


class FollowedCheckpoint:
    """The option `klamm.follow.checkpointLocation` of one query."""

    def __init__(self, location: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Takes a path or a URI that `pyarrow.fs` knows. Opens nothing yet."""
        self._location = absolute_location(location)
        self._clock = clock
        self._looked_at = float("-inf")
        self._finished: int | None = None
        self._end: PartitionOffsets = {}
        self._is_fixed = False
        self._has_warned = False

    def fix(self) -> None:
        """Keeps the end of now for all further calls (AvailableNow). Raises `OSError`."""
        self._look()
        self._is_fixed = True

    def bounded(self, start: Mapping[TopicPartition, Offset], end: Mapping[TopicPartition, Offset]) -> PartitionOffsets:
        """Returns `end`, cut off where the last finished micro-batch of the followed query ends, as of at most a second
        ago.

        A partition that is ahead of the followed query stays at `start`. So does one that the followed query has not
        begun to read; without a start it is left out. An end before the start is not changed, because it tells of lost
        records. If the checkpoint can't be read, the last known end counts, with one warning.
        """
        self._refresh()
        bounded: PartitionOffsets = {}
        for key, offset in end.items():
            if key not in start:
                if key in self._end:
                    bounded[key] = min(offset, self._end[key])
            elif offset < start[key]:
                bounded[key] = offset
            else:
                bounded[key] = max(start[key], min(offset, self._end.get(key, start[key])))
        return bounded

    def _refresh(self) -> None:
        now = self._clock()
        if self._is_fixed or now - self._looked_at < _INTERVAL_S:
            return
        self._looked_at = now
        try:
            self._look()
            self._has_warned = False
        except OSError as error:
            if not self._has_warned:
                _logger.warning(
                    "klamm.follow.checkpointLocation=%s can't be read: %s", without_credentials(self._location), error
                )
            self._has_warned = True

    def _look(self) -> None:
        folder = folder_at(self._location)
        if not self._may_have_moved(folder):
            return
        finished = newest_batch(folder, "commits")
        if finished is not None and finished != self._finished:
            self._end = planned_end(folder, finished)
        self._finished = finished

    def _may_have_moved(self, folder: Folder) -> bool:
        # In an object store, small reads cost less than a list of all finished micro-batches. Spark keeps only the
        # newest ones (`spark.sql.streaming.minBatchesToRetain`), so the next one may be gone before it was seen.
        return (
            self._finished is None
            or folder.read(f"commits/{self._finished + 1}") is not None
            or folder.read(f"commits/{self._finished}") is None
        )
