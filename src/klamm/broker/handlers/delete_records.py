"""DeleteRecords: raises the log start offset, and so deletes the records below it (KIP-107).

Versions 0 to 2: v1 response before throttling, v2 flexible. Offset -1 stands for the high watermark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.broker.time_slices import Work, free_later
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

__all__ = ["error_response", "handle"]

_HIGH_WATERMARK: Final = -1
_INVALID_LOW_WATERMARK: Final = -1


def handle(context: RequestContext, request: DeleteRecordsRequest) -> Work[DeleteRecordsResponse]:
    """Deletes the records below the offset of each partition. If a partition is named twice, the last offset counts."""
    wanted: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        for each in topic.partitions:
            wanted.setdefault(topic.name, {})[each.partition_index] = each
            yield None
        yield None
    response = DeleteRecordsResponse()
    for name, partitions in wanted.items():
        result = DeleteRecordsTopicResult(name=name)
        response.topics.append(result)
        for partition in partitions.values():
            result.partitions.append(_delete(context, name, partition))
            yield None
        yield None
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


def _delete(context: RequestContext, topic: str, wanted: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
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
        low_watermark = log.delete_records_before(offset)
    except KafkaError as error:
        return _refuse(wanted, error.code)
    return DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=low_watermark)
