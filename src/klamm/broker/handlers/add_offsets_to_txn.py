"""AddOffsetsToTxn: announces that a producer will commit offsets of a group within its transaction (KIP-98).

Versions 0 to 4: v2 PRODUCER_FENCED, v3 flexible, v4 TRANSACTION_ABORTABLE. Clients of transaction version 2 do not send
it, because TxnOffsetCommit adds the partition itself (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from klamm.core.coordinator.shard_contract import ClientContext
from klamm.core.txn.additions import topics_of
from klamm.protocol.errors import ErrorCode
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC
from klamm.protocol.schema.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from klamm.protocol.schema.add_offsets_to_txn_response import AddOffsetsToTxnResponse
from klamm.protocol.schema.add_partitions_to_txn_request import AddPartitionsToTxnTransaction
from klamm.protocol.schema.add_partitions_to_txn_response import AddPartitionsToTxnResult
from klamm.protocol.types import TopicPartition
from klamm.runtime.answers import Answer, then

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

_HIGHEST_CLIENT_VERSION = 3
"""Highest version of AddPartitionsToTxn for clients. The coordinator handles the request as AddPartitionsToTxn."""


def handle(context: RequestContext, request: AddOffsetsToTxnRequest) -> Answer[AddOffsetsToTxnResponse]:
    """Adds the group's partition of `__consumer_offsets` to the transaction."""
    partition = TopicPartition(OFFSETS_TOPIC, context.broker.groups.partition_for(request.group_id))
    addition = AddPartitionsToTxnTransaction(
        transactional_id=request.transactional_id,
        producer_id=request.producer_id,
        producer_epoch=request.producer_epoch,
        topics=topics_of([partition]),
    )
    # In equal versions of both APIs, clients know the same errors.
    version = min(context.api_version, _HIGHEST_CLIENT_VERSION)
    client = ClientContext(context.client_id or "", context.client_host, version)
    return then(context.broker.transactions.add_partitions_to_txn(addition, client), _response)


def error_response(
    request: AddOffsetsToTxnRequest, version: int, code: ErrorCode, message: str | None = None
) -> AddOffsetsToTxnResponse:
    """Returns a response with this error."""
    return AddOffsetsToTxnResponse(error_code=code)


def _response(result: AddPartitionsToTxnResult) -> AddOffsetsToTxnResponse:
    return AddOffsetsToTxnResponse(error_code=result.topic_results[0].results_by_partition[0].partition_error_code)
