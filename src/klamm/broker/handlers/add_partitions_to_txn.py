"""AddPartitionsToTxn: a producer is about to write to partitions within its transaction (KIP-98).

Versions 0 to 5: 2 PRODUCER_FENCED, 3 flexible, 4 several transactions, and to verify only, for brokers (KIP-890),
5 TRANSACTION_ABORTABLE. Clients ask in version 3 at most; those of transaction version 2 leave it out, since the broker
that they write to adds the partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.core.coordinator.contract import ClientContext
from klamm.core.txn.additions import partitions_of, result_for
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)
from klamm.protocol.schema.add_partitions_to_txn_response import AddPartitionsToTxnResponse, AddPartitionsToTxnResult
from klamm.runtime.answers import Answer, gather, then

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext

__all__ = ["error_response", "handle"]

_BATCHED_FROM: Final = 4


def handle(context: RequestContext, request: AddPartitionsToTxnRequest) -> Answer[AddPartitionsToTxnResponse]:
    """Adds or verifies the partitions of each transaction: all of them, or none where one does not exist."""
    if context.api_version < _BATCHED_FROM:
        return then(
            _add(context, _only_transaction(request)),
            lambda result: AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results),
        )
    return then(
        gather([_add(context, transaction) for transaction in request.transactions]),
        lambda results: AddPartitionsToTxnResponse(results_by_transaction=results),
    )


def error_response(
    request: AddPartitionsToTxnRequest, version: int, code: ErrorCode, message: str | None = None
) -> AddPartitionsToTxnResponse:
    """The answer that adds nothing."""
    if version >= _BATCHED_FROM:
        return AddPartitionsToTxnResponse(error_code=code)
    result = _refuse(_only_transaction(request), code)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)


def _add(context: RequestContext, transaction: AddPartitionsToTxnTransaction) -> Answer[AddPartitionsToTxnResult]:
    topics = context.broker.metadata.image.topics
    partitions = partitions_of(transaction.topics)
    unknown = {
        each
        for each in partitions
        if (topic := topics.get(each.topic)) is None or not 0 <= each.partition < len(topic.partitions)
    }
    if unknown:
        codes = {
            each: ErrorCode.unknown_topic_or_partition if each in unknown else ErrorCode.operation_not_attempted
            for each in partitions
        }
        return result_for(transaction.transactional_id, codes)
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    return context.broker.transactions.add_partitions_to_txn(transaction, client)


def _only_transaction(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _refuse(transaction: AddPartitionsToTxnTransaction, code: ErrorCode) -> AddPartitionsToTxnResult:
    return result_for(transaction.transactional_id, dict.fromkeys(partitions_of(transaction.topics), code))
