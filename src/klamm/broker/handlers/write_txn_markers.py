"""WriteTxnMarkers: ends transactions in the partitions of this broker, for the transaction coordinator that decided so,
or for an administrator who ends a transaction that hangs (KIP-664).

Version 1 is the oldest served, and flexible; 2 says under which transaction version it was decided (KIP-1228).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from klamm.core.txn.markers import TransactionMarker
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from klamm.protocol.schema.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from klamm.protocol.types import PartitionIndex, ProducerEpoch, ProducerId, TopicPartition

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext

__all__ = ["error_response", "handle"]


async def handle(context: RequestContext, request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    """Writes the markers in the order of the request. Of several for one producer the answer has one entry."""
    outcomes: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for wanted in request.markers:
        codes = await context.broker.transaction_markers.write_markers(_marker(wanted))
        outcomes.setdefault(wanted.producer_id, {}).update(codes)
    return WriteTxnMarkersResponse(markers=[_result(producer_id, codes) for producer_id, codes in outcomes.items()])


def error_response(
    request: WriteTxnMarkersRequest, version: int, code: ErrorCode, message: str | None = None
) -> WriteTxnMarkersResponse:
    """The answer that refuses every partition of every marker."""
    return WriteTxnMarkersResponse(
        markers=[
            _result(wanted.producer_id, dict.fromkeys(_marker(wanted).partitions, code)) for wanted in request.markers
        ]
    )


def _marker(wanted: WritableTxnMarker) -> TransactionMarker:
    return TransactionMarker(
        ProducerId(wanted.producer_id),
        ProducerEpoch(wanted.producer_epoch),
        wanted.coordinator_epoch,
        wanted.transaction_result,
        tuple(
            TopicPartition(topic.name, PartitionIndex(index))
            for topic in wanted.topics
            for index in topic.partition_indexes
        ),
        wanted.transaction_version,
    )


def _result(producer_id: int, codes: Mapping[TopicPartition, ErrorCode]) -> WritableTxnMarkerResult:
    topics: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
    for (topic, index), code in codes.items():
        topics.setdefault(topic, []).append(WritableTxnMarkerPartitionResult(partition_index=index, error_code=code))
    return WritableTxnMarkerResult(
        producer_id=producer_id,
        topics=[WritableTxnMarkerTopicResult(name=name, partitions=results) for name, results in topics.items()],
    )
