"""TxnOffsetCommit: commits offsets of a group within a producer's transaction (KIP-98).

Versions 0 to 5: v2 leader epochs (KIP-320), v3 flexible, member and generation (KIP-447), v4 TRANSACTION_ABORTABLE,
v5 the broker adds the group's partition to the transaction (KIP-890).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.broker.partitions.transaction_verification import TransactionVerification
from klamm.broker.time_slices import Work, answer_of, free_later, wait_for
from klamm.core.coordinator.shard_contract import ClientContext
from klamm.core.log.transaction_verification import NO_GUARD
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC
from klamm.protocol.parts import merge, parts_of
from klamm.protocol.record_batch import NO_SEQUENCE
from klamm.protocol.schema.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from klamm.protocol.schema.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from klamm.protocol.types import ProducerEpoch, ProducerId, TopicPartition
from klamm.runtime.error_responses import txn_offset_commit_error

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.metadata.image import MetadataImage
    from klamm.runtime.answers import Answer

__all__ = ["error_response", "handle"]

_LOADING_IS_KNOWN_FROM: Final = 2
_ABORTABLE_IS_KNOWN_FROM: Final = 4
_ADDS_PARTITIONS_FROM: Final = 5


OFFSETS_AT_ONCE: Final = 250
"""Maximum number of offsets committed in one step, as for OffsetCommit."""


def handle(context: RequestContext, request: TxnOffsetCommitRequest) -> Work[TxnOffsetCommitResponse]:
    """Commits offsets of partitions that exist; the others get UNKNOWN_TOPIC_OR_PARTITION."""
    image = context.broker.metadata.image
    refused = yield from _take_unknown_partitions_out(request, image)
    if not request.topics:
        return refused
    answer = TxnOffsetCommitResponse()
    code: ErrorCode | None = ErrorCode.INVALID_GROUP_ID
    guard = NO_GUARD
    if request.group_id:
        code, guard = yield from _verify(context, request)
        # A topic may have been deleted meanwhile, and its offsets as well. Later ones would count for the next topic of
        # the name.
        while image.topics is not context.broker.metadata.image.topics:
            before, image = image, context.broker.metadata.image
            yield from _merge(refused, (yield from _take_unknown_partitions_out(request, image, before)))
        if not request.topics:
            return refused
    client = ClientContext(context.client_id or "", context.client_host, context.api_version)
    begun: list[tuple[Answer[TxnOffsetCommitResponse], int]] = []
    for part in parts_of(request, OFFSETS_AT_ONCE):
        if code is None:
            begun.append((context.broker.groups.txn_offset_commit(part.message, client, guard), part.continued))
        else:
            begun.append((error_response(part.message, context.api_version, code), part.continued))
        yield None
    for each, continued in begun:
        merge(answer, (yield from answer_of(each)), continued)
        yield None
    yield from _merge(refused, answer)
    if context.api_version < _LOADING_IS_KNOWN_FROM:
        yield from _hide_loading(refused)
    return refused


def error_response(
    request: TxnOffsetCommitRequest, version: int, code: ErrorCode, message: str | None = None
) -> TxnOffsetCommitResponse:
    """Returns a response with this error for every partition."""
    return txn_offset_commit_error(request, code)


def _verify(context: RequestContext, request: TxnOffsetCommitRequest) -> Work[tuple[ErrorCode | None, int]]:
    """Asks the transaction coordinator about the group's partition. Returns an error or None, and a guard."""
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
        yield from wait_for(verification.ask(broker.transaction_verifier))
    code = verification.errors.get(partition)
    if code is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_IS_KNOWN_FROM:
        code = ErrorCode.INVALID_TXN_STATE
    return code, verification.guard(partition)


def _take_unknown_partitions_out(
    request: TxnOffsetCommitRequest, image: MetadataImage, before: MetadataImage | None = None
) -> Work[TxnOffsetCommitResponse]:
    """Removes partitions that don't exist from the request, and returns their errors. A topic that had another id
    `before` does not exist any more."""
    refused = TxnOffsetCommitResponse()
    known_topics: list[TxnOffsetCommitRequestTopic] = []
    for topic in request.topics:
        found = image.topics.get(topic.name)
        if found is not None and before is not None and found.topic_id != before.topics[topic.name].topic_id:
            found = None
        count = 0 if found is None else len(found.partitions)
        known: list[TxnOffsetCommitRequestPartition] = []
        unknown: list[TxnOffsetCommitResponsePartition] = []
        for each in topic.partitions:
            if 0 <= each.partition_index < count:
                known.append(each)
            else:
                unknown.append(
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    )
                )
            yield None
        free_later(topic.partitions)
        topic.partitions = known
        if unknown:
            refused.topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=unknown))
        if known:
            known_topics.append(topic)
        yield None
    free_later(request.topics)
    request.topics = known_topics
    return refused


def _merge(refused: TxnOffsetCommitResponse, response: TxnOffsetCommitResponse) -> Work[None]:
    """Adds the coordinator's results to the refusals, with one entry per topic."""
    by_name = {}
    for topic in refused.topics:
        by_name[topic.name] = topic
        yield None
    for topic in response.topics:
        existing = by_name.get(topic.name)
        if existing is None:
            refused.topics.append(topic)
        else:
            existing.partitions.extend(topic.partitions)
        yield None


def _hide_loading(response: TxnOffsetCommitResponse) -> Work[None]:
    """Replaces COORDINATOR_LOAD_IN_PROGRESS, which breaks producers before 2.0 (KAFKA-7296)."""
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            yield None
        yield None
