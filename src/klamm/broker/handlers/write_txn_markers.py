"""WriteTxnMarkers: ends transactions in the partitions of this broker.

The sender is the transaction coordinator, or an administrator who ends a hanging transaction (KIP-664).

Versions 1 to 2: v1 flexible, v2 the transaction version of the marker (KIP-1228).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from klamm.broker.time_slices import Work, free_later
from klamm.core.txn.markers import TransactionMarker
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.parts import parts_of
from klamm.protocol.schema.write_txn_markers_request import WritableTxnMarker, WriteTxnMarkersRequest
from klamm.protocol.schema.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)
from klamm.protocol.types import PartitionIndex, ProducerEpoch, ProducerId, TopicPartition

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.broker.partitions.transaction_markers import MarkersUnderWay

__all__ = ["error_response", "handle"]


PARTITIONS_AT_ONCE: Final = 250
"""Maximum number of partitions of a marker handled at a time."""
_PARTS_UNDER_WAY: Final = 100
"""Maximum number of such parts that wait for their commit together. A coordinator sends no more (`MarkerDelivery`)."""

_Outcomes: TypeAlias = dict[int, dict[str, dict[int, ErrorCode]]]
"""The outcomes by producer id, topic and partition."""


def handle(context: RequestContext, request: WriteTxnMarkersRequest) -> Work[WriteTxnMarkersResponse]:
    """Writes the markers in the order of the request. The response has one entry per producer id.

    Raises CLUSTER_AUTHORIZATION_FAILED on a listener that is not the one for brokers.
    """
    if not context.is_between_brokers:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    outcomes: _Outcomes = {}
    begun: list[tuple[int, MarkersUnderWay]] = []
    for wanted in request.markers:
        outcomes.setdefault(wanted.producer_id, {})
        for part in parts_of(wanted, PARTITIONS_AT_ONCE):
            under_way = yield from context.broker.transaction_markers.begin_in_steps(_marker(part.message))
            begun.append((wanted.producer_id, under_way))
            if len(begun) == _PARTS_UNDER_WAY:
                yield from _finish(context, begun, outcomes)
                begun = []
            yield None
        yield None
    yield from _finish(context, begun, outcomes)
    response = WriteTxnMarkersResponse()
    for producer_id, topics in outcomes.items():
        result = WritableTxnMarkerResult(producer_id=producer_id)
        response.markers.append(result)
        for name, codes_of_topic in topics.items():
            topic_result = WritableTxnMarkerTopicResult(name=name)
            result.topics.append(topic_result)
            for number, code in codes_of_topic.items():
                topic_result.partitions.append(_partition_result(number, code))
                yield None
            yield None
        yield None
    free_later(outcomes)
    return response


def _finish(context: RequestContext, begun: Sequence[tuple[int, MarkersUnderWay]], outcomes: _Outcomes) -> Work[None]:
    """Adds the outcomes of the markers, once they are committed. No marker waits for another one to be committed:
    otherwise a partition whose replicas hang would hold up all transactions."""
    for producer_id, under_way in begun:
        codes = yield from context.broker.transaction_markers.outcomes_in_steps(under_way)
        own = outcomes[producer_id]
        for (topic, index), code in codes.items():  # at most PARTITIONS_AT_ONCE
            own.setdefault(topic, {})[index] = code
        yield None


def error_response(
    request: WriteTxnMarkersRequest, version: int, code: ErrorCode, message: str | None = None
) -> WriteTxnMarkersResponse:
    """Returns a response with this error for every partition of every marker."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=wanted.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[_partition_result(index, code) for index in dict.fromkeys(topic.partition_indexes)],
                    )
                    for topic in wanted.topics
                ],
            )
            for wanted in request.markers
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


def _partition_result(index: int, code: ErrorCode) -> WritableTxnMarkerPartitionResult:
    return WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
