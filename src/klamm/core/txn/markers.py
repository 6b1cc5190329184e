"""The interface through which the transaction coordinator writes markers to a transaction's partitions.

The coordinator asks for a `TransactionMarker` by a `WriteMarkers`, which the runtime passes to a `MarkerWriter`. It
repeats this for the partitions that failed until all have their marker. After Apache Kafka's `TxnMarkerEntry` and
`TransactionMarkerChannelManager`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import ProducerEpoch, ProducerId, TopicPartition

__all__ = ["MarkerWriter", "TransactionMarker", "WriteMarkers"]


@dataclass(frozen=True, slots=True)
class TransactionMarker:
    """The end of one producer's transaction, for some of its partitions.

    `transaction_version` is the feature level under which the transaction was ended. From 2 on, the marker's epoch is
    above the epoch of the transaction's records (KIP-890), and a marker with the records' own epoch is refused.
    """

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    coordinator_epoch: int
    is_commit: bool
    partitions: tuple[TopicPartition, ...]
    transaction_version: int
    transactional_id: str = ""
    """The id whose coordinator asks for the marker; empty for a marker of a WriteTxnMarkers request."""


@dataclass(frozen=True, slots=True)
class WriteMarkers:
    """The request that the leaders of the marker's partitions write it."""

    owner_id: str
    marker: TransactionMarker


class MarkerWriter(Protocol):
    """Writes markers into the logs of partitions, on any broker."""

    async def write_markers(self, marker: TransactionMarker) -> Mapping[TopicPartition, ErrorCode]:
        """Writes the marker, and returns the outcome for each of its partitions.

        `ErrorCode.NONE` means that the marker is committed. A partition that doesn't exist gets
        UNKNOWN_TOPIC_OR_PARTITION. Raises nothing.
        """
