"""What the transaction coordinator asks of the partitions of a transaction that ends: a marker in each of them.

The coordinator hands a `TransactionMarker` to a `MarkerWriter` and asks again for the partitions that were not
written, until all are. After Apache Kafka's `TxnMarkerEntry` and `TransactionMarkerChannelManager`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import ProducerEpoch, ProducerId, TopicPartition

__all__ = ["MarkerWriter", "TransactionMarker"]


@dataclass(frozen=True, slots=True)
class TransactionMarker:
    """The end of one producer's transaction, for some of its partitions.

    `transaction_version` is the feature level under which it was ended: from 2 on the marker's epoch is above that of
    the transaction's records (KIP-890), so a marker of their own epoch is refused.
    """

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int


class MarkerWriter(Protocol):
    """Writes markers into the logs of the partitions, wherever their leaders are."""

    async def write_markers(self, marker: TransactionMarker) -> Mapping[TopicPartition, ErrorCode]:
        """The outcome for each partition of the marker, once it is known.

        `ErrorCode.none` says that the marker is committed. A partition that doesn't exist is
        UNKNOWN_TOPIC_OR_PARTITION. Raises nothing.
        """
