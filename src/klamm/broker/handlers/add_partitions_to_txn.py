"""AddPartitionsToTxn: announces that a producer will write to partitions within its transaction (KIP-98).

Versions 0 to 5: v2 PRODUCER_FENCED, v3 flexible, v4 several transactions and verification only, for brokers (KIP-890),
v5 TRANSACTION_ABORTABLE. Clients use version 3 at most. Clients with transaction version 2 do not send this request:
the broker to which they produce adds the partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import TYPE_CHECKING, Final

from klamm.broker.time_slices import Work, answer_of, free_later
from klamm.core.coordinator.shard_contract import ClientContext
from klamm.core.txn.additions import partitions_of, result_for
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from klamm.protocol.schema.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
)
from klamm.runtime.answers import Answer

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext

__all__ = ["error_response", "handle"]

_BATCHED_FROM: Final = 4


def handle(context: RequestContext, request: AddPartitionsToTxnRequest) -> Work[AddPartitionsToTxnResponse]:
    """Adds or verifies the partitions of each transaction, or none of a transaction if one of them does not exist.

    The versions for brokers raise CLUSTER_AUTHORIZATION_FAILED on a listener that is not the one for brokers.
    """
    if context.api_version < _BATCHED_FROM:
        result = yield from answer_of((yield from _add(context, _only_transaction(request))))
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)
    if not context.is_between_brokers:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    answers = []
    for transaction in request.transactions:
        answers.append((yield from _add(context, transaction)))
        yield None
    response = AddPartitionsToTxnResponse()
    for answer in answers:
        response.results_by_transaction.append((yield from answer_of(answer)))
        yield None
    return response


def error_response(
    request: AddPartitionsToTxnRequest, version: int, code: ErrorCode, message: str | None = None
) -> AddPartitionsToTxnResponse:
    """Returns a response with this error."""
    if version >= _BATCHED_FROM:
        return AddPartitionsToTxnResponse(error_code=code)
    result = _refuse(_only_transaction(request), code)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)


def _add(context: RequestContext, transaction: AddPartitionsToTxnTransaction) -> Work[Answer[AddPartitionsToTxnResult]]:
    topics = context.broker.metadata.image.topics
    codes: dict[str, dict[int, ErrorCode]] = {}
    has_unknown = False
    for wanted in transaction.topics:
        topic = topics.get(wanted.name)
        count = 0 if topic is None else len(topic.partitions)
        for index in wanted.partitions:
            is_known = 0 <= index < count
            has_unknown = has_unknown or not is_known
            code = ErrorCode.OPERATION_NOT_ATTEMPTED if is_known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            codes.setdefault(wanted.name, {})[index] = code
            yield None
        yield None
    if has_unknown:
        return (yield from _result(transaction.transactional_id, codes))
    # Each partition once, so the list stays short. The list of the request is freed with the request, in steps.
    transaction = copy(transaction)
    transaction.topics = [AddPartitionsToTxnTopic(name=name, partitions=list(own)) for name, own in codes.items()]
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    return context.broker.transactions.add_partitions_to_txn(transaction, client)


def _result(transactional_id: str, codes: Mapping[str, Mapping[int, ErrorCode]]) -> Work[AddPartitionsToTxnResult]:
    result = AddPartitionsToTxnResult(transactional_id=transactional_id)
    for name, own in codes.items():
        topic = AddPartitionsToTxnTopicResult(name=name)
        result.topic_results.append(topic)
        for index, code in own.items():
            topic.results_by_partition.append(
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
            )
            yield None
        yield None
    free_later(codes)
    return result


def _only_transaction(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _refuse(transaction: AddPartitionsToTxnTransaction, code: ErrorCode) -> AddPartitionsToTxnResult:
    return result_for(transaction.transactional_id, dict.fromkeys(partitions_of(transaction.topics), code))
