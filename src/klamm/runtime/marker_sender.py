"""Sends the requests of transaction shards: each asks for a transaction marker to be written.

The leaders of the marker's partitions, this broker or others, write it. The outcome goes back to the shard of the
request, if this broker still leads its partition.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from klamm.core.coordinator.shard_contract import RequestToSend
from klamm.core.txn.markers import MarkerWriter, TransactionMarker, WriteMarkers
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import TopicPartition
from klamm.runtime.ports import Spawn

__all__ = ["MarkerSender"]

_logger = logging.getLogger(__name__)


class MarkerSender:
    """The sender of a runtime whose shards are transaction shards."""

    def __init__(self, writer: MarkerWriter, spawn: Spawn) -> None:
        self._writer = writer
        self._spawn = spawn

    def send(self, request: RequestToSend, done: Callable[[object], None]) -> None:
        """Has the marker of the request written, and calls `done` with the error code of each of its partitions."""
        assert isinstance(request, WriteMarkers)
        self._spawn(self._write(request.marker, done))

    async def _write(self, marker: TransactionMarker, done: Callable[[object], None]) -> None:
        outcomes: Mapping[TopicPartition, ErrorCode]
        try:
            outcomes = await self._writer.write_markers(marker)
        except Exception:
            # The shard retries without limit.
            _logger.exception("markers of producer %d could not be written", marker.producer_id)
            outcomes = dict.fromkeys(marker.partitions, ErrorCode.UNKNOWN_SERVER_ERROR)
        done(outcomes)
