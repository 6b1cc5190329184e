"""Runs the background tasks of transaction shards: each task names a transaction marker to write.

The leaders of the marker's partitions, this broker or others, write it. The outcome goes back to the shard of the task,
if this broker still leads its partition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from klamm.core.txn.markers import MarkerWriter, TransactionMarker
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.runtime.ports import Spawn

__all__ = ["MarkerExecutor"]

_logger = logging.getLogger(__name__)


class MarkerExecutor:
    """The executor of a runtime whose shards are transaction shards."""

    def __init__(self, writer: MarkerWriter, spawn: Spawn) -> None:
        self._writer = writer
        self._spawn = spawn

    def submit(self, run: Callable[[], object], done: Callable[[object], None]) -> None:
        """Writes the marker that `run` returns, and calls `done` with the error code of each of its partitions."""
        marker = run()
        assert isinstance(marker, TransactionMarker)
        self._spawn(self._write(marker, done))

    async def _write(self, marker: TransactionMarker, done: Callable[[object], None]) -> None:
        outcome: Mapping[TopicPartition, ErrorCode]
        try:
            outcome = await self._writer.write_markers(marker)
        except Exception:
            # The shard retries without limit.
            _logger.exception("markers of producer %d could not be written", marker.producer_id)
            outcome = dict.fromkeys(marker.partitions, ErrorCode.UNKNOWN_SERVER_ERROR)
        done(outcome)
