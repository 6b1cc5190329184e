"""TxnOffsetCommit: a producer commits offsets of a group together with its transaction (KIP-98).

Versions 0 to 5: 2 leader epochs (KIP-320), 3 flexible, member and generation (KIP-447), 4 TRANSACTION_ABORTABLE, 5 the
broker adds the group's partition to the transaction (KIP-890).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from klamm.broker.internal_topics import OFFSETS_TOPIC
from klamm.broker.steps import OFFSETS_AT_ONCE, offsets_in_parts
from klamm.broker.transaction_verification import TransactionVerification
from klamm.core.coordinator.contract import ClientContext
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import NO_SEQUENCE
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from klamm.protocol.schema.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from klamm.protocol.types import ProducerEpoch, ProducerId, TopicPartition
from klamm.runtime.error_responses import txn_offset_commit_error

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from klamm.broker.context import RequestContext
    from klamm.metadata.image import MetadataImage
    from klamm.runtime.answers import Answer

__all__ = ["error_response", "handle"]

_LOADING_IS_KNOWN_FROM: Final = 2
_ABORTABLE_IS_KNOWN_FROM: Final = 4
_ADDS_PARTITIONS_FROM: Final = 5


def handle(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | Awaitable[TxnOffsetCommitResponse]:
    """Commits for partitions that exist; the others get UNKNOWN_TOPIC_OR_PARTITION."""
    refused = _take_unknown_partitions_out(request, context.broker.metadata.image)
    if not request.topics:
        return TxnOffsetCommitResponse(topics=refused)
    if not request.group_id:
        return _merge(refused, error_response(request, context.api_version, ErrorCode.invalid_group_id))
    return _commit(context, request, refused)


def error_response(
    request: TxnOffsetCommitRequest, version: int, code: ErrorCode, message: str | None = None
) -> TxnOffsetCommitResponse:
    """The answer that refuses every partition."""
    return txn_offset_commit_error(request, code)


async def _commit(
    context: RequestContext, request: TxnOffsetCommitRequest, refused: list[TxnOffsetCommitResponseTopic]
) -> TxnOffsetCommitResponse:
    broker = context.broker
    version = context.api_version
    partition = TopicPartition(OFFSETS_TOPIC, broker.groups.partition_for(request.group_id))
    verification = TransactionVerification(
        request.transactional_id,
        ProducerId(request.producer_id),
        ProducerEpoch(request.producer_epoch),
        adds_partitions=version >= _ADDS_PARTITIONS_FROM,
        is_enabled=broker.config.transaction_partition_verification_enable,
        now_ms=broker.clock(),
    )
    try:
        verification.begin(broker.partitions.get(*partition), NO_SEQUENCE)
    except KafkaError as error:
        verification.errors[partition] = error.code
    if verification.guards:
        await verification.ask(broker.transactions)
    code = verification.errors.get(partition)
    if code is None:
        client = ClientContext(context.client_id or "", context.client_host, version)
        guard = verification.guard(partition)
        answers: list[Answer[TxnOffsetCommitResponse]] = []
        for part in offsets_in_parts(request, OFFSETS_AT_ONCE):
            if answers:
                await asyncio.sleep(0)  # Very many are committed in steps, as by OffsetCommit.
            answers.append(broker.groups.txn_offset_commit(part, client, guard))
        response = TxnOffsetCommitResponse()
        for answer in answers:
            response = _merge(response.topics, answer if isinstance(answer, TxnOffsetCommitResponse) else await answer)
    else:
        if code is ErrorCode.transaction_abortable and version < _ABORTABLE_IS_KNOWN_FROM:
            code = ErrorCode.invalid_txn_state
        response = error_response(request, version, code)
    return _for_version(_merge(refused, response), version)


def _take_unknown_partitions_out(
    request: TxnOffsetCommitRequest, image: MetadataImage
) -> list[TxnOffsetCommitResponseTopic]:
    """Leaves only partitions that exist in the request, and refuses the others."""
    refused: list[TxnOffsetCommitResponseTopic] = []
    known: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        found = image.topics.get(topic.name)
        count = 0 if found is None else len(found.partitions)
        unknown = [each.partition_index for each in topic.partitions if not 0 <= each.partition_index < count]
        if unknown:
            partitions = [
                TxnOffsetCommitResponsePartition(partition_index=index, error_code=ErrorCode.unknown_topic_or_partition)
                for index in unknown
            ]
            refused.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
            topic.partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
        if topic.partitions:
            known.append(topic)
    request.topics = known
    return refused


def _merge(refused: list[TxnOffsetCommitResponseTopic], response: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
    if not refused:
        return response
    by_name = {topic.name: topic for topic in refused}
    for topic in response.topics:
        existing = by_name.get(topic.name)
        if existing is None:
            refused.append(topic)
        else:
            existing.partitions.extend(topic.partitions)
    return TxnOffsetCommitResponse(topics=refused)


def _for_version(response: TxnOffsetCommitResponse, version: int) -> TxnOffsetCommitResponse:
    """Producers before 2.0 break at COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
    if version < _LOADING_IS_KNOWN_FROM:
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.coordinator_load_in_progress:
                    partition.error_code = ErrorCode.coordinator_not_available
    return response
