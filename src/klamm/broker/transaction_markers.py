"""Markers that end transactions, written into the logs of the partitions that this broker leads.

In an ordinary partition a marker is a control batch. In a partition of `__consumer_offsets` the group coordinator
writes it, for the offsets of the transaction become visible, or are forgotten, with it.

After Apache Kafka's `KafkaApis.handleWriteTxnMarkersRequest` (4.3).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import Millis, Offset, TopicPartition

if TYPE_CHECKING:
    from klamm.broker.partitions import Partition, Partitions
    from klamm.core.txn.markers import TransactionMarker
    from klamm.runtime.group_coordinator import GroupCoordinator

__all__ = ["TransactionMarkers"]

logger = logging.getLogger(__name__)


class TransactionMarkers:
    """Writes markers for whoever has them written: this broker's transaction coordinator, or WriteTxnMarkers."""

    def __init__(
        self,
        partitions: Partitions,
        groups: GroupCoordinator,
        *,
        clock: Callable[[], Millis],
        timeout_ms: int,
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._clock = clock
        self._timeout_s = timeout_ms / 1000

    async def write_markers(self, marker: TransactionMarker) -> Mapping[TopicPartition, ErrorCode]:
        """Appends the marker to each of its partitions and waits until it is committed there.

        Says for each how it went: UNKNOWN_TOPIC_OR_PARTITION where it does not exist, NOT_LEADER_OR_FOLLOWER where it
        is not led here, INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED where a newer epoch has written,
        REQUEST_TIMED_OUT where it is written and not committed in time. Raises nothing.
        """
        raise NotImplementedError
