"""Produce: appends record batches to partitions.

Version 3 is the oldest served: 0 to 2 carry message formats that no log holds any more (KIP-896). 5 log start offset,
8 errors of single records (KIP-467), 9 flexible, 10 leader hints, 11 and 12 transactions verified and added by the
broker (KIP-890), 13 topic ids.

On one node the partition's only replica is the leader's, so an append that succeeded is replicated: all three `acks`
answer from the same place.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from klamm.core.log.validation import InvalidRecords
from klamm.protocol.compression import Compression
from klamm.protocol.errors import ErrorCode, KafkaError, MalformedMessage
from klamm.protocol.produce import (
    ProducePartitionResponse,
    ProduceTopic,
    ProduceTopicResponse,
    decode_produce_request,
    encode_produce_response,
)
from klamm.protocol.record_batch import MAGIC, read_batch_header

if TYPE_CHECKING:
    from klamm.broker.context import RequestContext
    from klamm.broker.dispatch import Body, PendingBody
    from klamm.broker.partitions import LedTopic
    from klamm.protocol.types import Millis

__all__ = ["handle_frame"]

logger = logging.getLogger(__name__)

ALL: Final = -1
FIRST_VERSION_WITH_ZSTD: Final = 7
INTERNAL_TOPIC_CLIENT_ID: Final = "__admin_client"
"""Kafka lets only this client id write to internal topics (`AdminUtils`)."""


def handle_frame(context: RequestContext, view: memoryview, position: int) -> Body | PendingBody | None:
    """Appends every batch of the request and answers, except for acks=0, which has no answer."""
    version = context.api_version
    request = decode_produce_request(version, view, position)
    now_ms = context.broker.clock()
    if request.transactional_id is not None:
        # Transactional producers are refused when they ask for their id, so no honest client gets here.
        answers = _refuse_all(request.topics, ErrorCode.transactional_id_authorization_failed)
    elif request.acks not in (-1, 0, 1):
        answers = _refuse_all(request.topics, ErrorCode.invalid_required_acks)
    else:
        answers = [_append_topic(context, topic, request.acks, now_ms) for topic in request.topics]
    if request.acks == 0:
        # Nobody reads an answer, so the only way to tell of an error is to close (as Kafka does): the client then
        # refreshes its metadata.
        for answer in answers:
            for partition in answer.partitions:
                if partition.error_code:
                    raise_for_unacknowledged(answer, partition)
        return None
    return [encode_produce_response(version, answers)]


def raise_for_unacknowledged(topic: ProduceTopicResponse, partition: ProducePartitionResponse) -> None:
    """Ends the connection of a producer that asked for no answers and needs one."""
    name = ErrorCode(partition.error_code).name.upper()
    raise MalformedMessage(
        f"a produce request with acks=0 failed for {topic.name or 'a topic id'}-{partition.index}: {name}"
    )


def refuse_zstd(records: memoryview) -> None:
    """Raises UNSUPPORTED_COMPRESSION_TYPE for a codec that the client's version can't know (KIP-110)."""
    header = read_batch_header(records)
    if header.magic == MAGIC and header.compression == Compression.ZSTD:
        raise KafkaError(ErrorCode.unsupported_compression_type, "Produce 7 is the first version that takes zstd")


def _refuse_all(topics: list[ProduceTopic], code: ErrorCode) -> list[ProduceTopicResponse]:
    return [
        ProduceTopicResponse(
            topic.name, topic.topic_id, [ProducePartitionResponse(index, code) for index, _ in topic.partitions]
        )
        for topic in topics
    ]


def _append_topic(context: RequestContext, topic: ProduceTopic, acks: int, now_ms: Millis) -> ProduceTopicResponse:
    partitions = context.broker.partitions
    if topic.topic_id is None:
        led = partitions.by_name.get(topic.name or "")
        unknown = ErrorCode.unknown_topic_or_partition
    else:
        led = partitions.by_id.get(topic.topic_id)
        unknown = ErrorCode.unknown_topic_id
    if led is None:
        return _refuse_all([topic], unknown)[0]
    if led.is_internal and context.client_id != INTERNAL_TOPIC_CLIENT_ID:
        return _refuse_all([topic], ErrorCode.invalid_topic_exception)[0]
    return ProduceTopicResponse(
        topic.name,
        topic.topic_id,
        [_append(context, led, index, records, acks, now_ms) for index, records in topic.partitions],
    )


def _append(  # noqa: PLR0917 - called once for each batch of each request: keywords would cost
    context: RequestContext, led: LedTopic, index: int, records: memoryview | None, acks: int, now_ms: Millis
) -> ProducePartitionResponse:
    try:
        partition = led.get(index)
        if records is None or not records:
            raise KafkaError(ErrorCode.invalid_record, f"the request holds no record batch for {partition}")
        if context.api_version < FIRST_VERSION_WITH_ZSTD:
            refuse_zstd(records)
        if acks == ALL:
            partition.check_in_sync_replicas()
        info = partition.append(records, now_ms)
    except InvalidRecords as error:
        return ProducePartitionResponse(
            index, error.code, record_errors=error.record_errors, error_message=error.message
        )
    except KafkaError as error:
        return ProducePartitionResponse(index, error.code, error_message=error.message)
    except Exception:
        logger.exception("an append of %s to %s-%d failed", context.connection.peer, led.name, index)
        return ProducePartitionResponse(index, ErrorCode.unknown_server_error)
    return ProducePartitionResponse(
        index,
        0,
        base_offset=info.first_offset,
        log_append_time_ms=info.log_append_time_ms,
        log_start_offset=info.log_start_offset,
    )
