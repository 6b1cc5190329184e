"""DeleteRecords: raises the log start offset, and so deletes the records below it (KIP-107).

Versions 0 to 2: v1 response before throttling, v2 flexible. Offset -1 stands for the high watermark.

The answer comes when all live replicas have raised their log start offsets, which followers do with their next Fetch.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.broker.time_slices import Work, free_later, wait_for
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.delete_records_request import DeleteRecordsPartition, DeleteRecordsRequest
from klamm.protocol.schema.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from klamm.protocol.types import Offset

if TYPE_CHECKING:
    from klamm.broker.handler_context import RequestContext
    from klamm.broker.partitions.partition import Partition

__all__ = ["error_response", "handle"]

_HIGH_WATERMARK: Final = -1
_INVALID_LOW_WATERMARK: Final = -1
_LOOK_S: Final = 0.02
"""How often the log start offsets of followers are looked at."""
_LOOKED_AT_AT_ONCE: Final = 500
"""Number of partitions that are looked at in a step."""


class _Deletion(NamedTuple):
    """A deletion that the followers have not made yet."""

    partition: Partition
    offset: Offset
    result: DeleteRecordsPartitionResult


def handle(context: RequestContext, request: DeleteRecordsRequest) -> Work[DeleteRecordsResponse]:
    """Deletes the records below the offset of each partition. If a partition is named twice, the last offset counts."""
    wanted: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        for each in topic.partitions:
            wanted.setdefault(topic.name, {})[each.partition_index] = each
            yield None
        yield None
    response = DeleteRecordsResponse()
    incomplete: list[_Deletion] = []
    for name, partitions in wanted.items():
        result = DeleteRecordsTopicResult(name=name)
        response.topics.append(result)
        for partition in partitions.values():
            result.partitions.append(_delete(context, name, partition, incomplete))
            yield None
        yield None
    if incomplete:
        yield from wait_for(_wait_for_followers(context, incomplete, request.timeout_ms))
    free_later(wanted)
    return response


def error_response(
    request: DeleteRecordsRequest, version: int, code: ErrorCode, message: str | None = None
) -> DeleteRecordsResponse:
    """Returns a response with this error for every partition."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_refuse(partition, code) for partition in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _refuse(partition: DeleteRecordsPartition, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=partition.partition_index, low_watermark=_INVALID_LOW_WATERMARK, error_code=code
    )


def _delete(
    context: RequestContext, topic: str, wanted: DeleteRecordsPartition, incomplete: list[_Deletion]
) -> DeleteRecordsPartitionResult:
    """Deletes on this broker, and adds to `incomplete` what the followers have not deleted."""
    partitions = context.broker.partitions
    try:
        led = partitions.by_name.get(topic)
        if led is not None and led.is_internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"cannot delete records of internal topic {topic}")
        partition = partitions.get(topic, wanted.partition_index)
        partition.check_accepts_writes()
        log = partition.log
        if log.config.cleanup_policy == {"compact"}:
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"records of {partition} can not be deleted: its cleanup.policy is compact"
            )
        offset = log.high_watermark if wanted.offset == _HIGH_WATERMARK else Offset(wanted.offset)
        if offset < 0:
            raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"the offset {offset} for {partition} is not valid")
        log.delete_records_before(offset)
    except KafkaError as error:
        return _refuse(wanted, error.code)
    low_watermark = _low_watermark(context, partition)
    result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=low_watermark)
    if low_watermark < offset:
        incomplete.append(_Deletion(partition, offset, result))
    return result


def _low_watermark(context: RequestContext, partition: Partition) -> Offset:
    """Returns the lowest log start offset of the live replicas."""
    start, followers = partition.log.log_start_offset, partition.followers
    return start if followers is None else followers.low_watermark(start, context.broker.metadata.image.brokers.keys())


async def _wait_for_followers(context: RequestContext, incomplete: list[_Deletion], timeout_ms: int) -> None:
    """Waits until all live replicas have made the deletions.

    A deletion that a replica has not made within the timeout gets REQUEST_TIMED_OUT. A partition that this broker can't
    lead any more gets the error of a new request.

    Source: `DelayedDeleteRecords.tryComplete` of Apache Kafka 4.0.
    """
    loop = asyncio.get_running_loop()
    ends = loop.time() + timeout_ms / 1000
    while incomplete and loop.time() < ends:
        await asyncio.sleep(min(_LOOK_S, max(0.0, ends - loop.time())))
        left: list[_Deletion] = []
        for count, deletion in enumerate(incomplete, 1):
            named, offset, result = deletion
            try:
                partition = context.broker.partitions.get(named.topic, named.index)
                if partition.log.is_offline:
                    raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"the log of {partition} has failed")
            except KafkaError as error:
                result.low_watermark = _INVALID_LOW_WATERMARK
                result.error_code = error.code
            else:
                result.low_watermark = _low_watermark(context, partition)
                if result.low_watermark < offset:
                    left.append(deletion)
            if count % _LOOKED_AT_AT_ONCE == 0:
                await asyncio.sleep(0)
        incomplete = left
    for _, _, result in incomplete:
        result.error_code = ErrorCode.REQUEST_TIMED_OUT
