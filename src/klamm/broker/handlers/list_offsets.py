"""ListOffsets: returns the earliest or latest offset, the offset for a timestamp, or that of the highest timestamp.

Versions 1 to 11: v2 isolation level, v4 leader epochs (KIP-320), v5 OFFSET_NOT_AVAILABLE, v6 flexible, v7 max timestamp
(KIP-734), v8 earliest local (KIP-405), v9 latest tiered (KIP-1005), v10 timeout, v11 earliest pending upload
(KIP-1023).

A debugging consumer (replica id -2) also gets answers from followers: about all records of the replica, up to its log
end offset (`ReplicaManager.fetchOffset` of Apache Kafka 4.3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from klamm.broker.partitions.batch_opener import OpeningAllowance, OpensLater
from klamm.broker.partitions.local_replica import LocalReplica, local_replica
from klamm.broker.time_slices import Work, free_later, wait_for
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest
from klamm.protocol.schema.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from klamm.protocol.types import Millis

if TYPE_CHECKING:
    from collections.abc import Callable

    from klamm.broker.handler_context import RequestContext
    from klamm.broker.partitions.partition import Partition
    from klamm.core.log.timestamp_lookup import TimestampedOffset
    from klamm.storage.log.log import Log

__all__ = ["error_response", "handle"]

LATEST: Final = -1
EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_OFFSET_NOT_AVAILABLE_SINCE: Final = 5
"""First version whose clients know this error; older clients get LEADER_NOT_AVAILABLE."""
_SINCE_VERSION: Final = {_MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9, _EARLIEST_PENDING_UPLOAD: 11}

READ_COMMITTED: Final = 1
_CONSUMER_REPLICA_ID: Final = -1
_DEBUGGING_REPLICA_ID: Final = -2
NOTHING: Final = -1


def handle(context: RequestContext, request: ListOffsetsRequest) -> Work[ListOffsetsResponse]:
    """Looks up each requested partition. Each has its own error; a partition named twice gets INVALID_REQUEST."""
    answers: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    for topic in request.topics:
        if topic.partitions:
            answered = answers.setdefault(topic.name, {})
            for partition in topic.partitions:
                index = partition.partition_index
                if index in answered:
                    answered[index] = _refuse(partition, ErrorCode.INVALID_REQUEST)
                else:
                    answered[index] = yield from _look_up(context, request, topic.name, partition)
                yield None
        yield None
    response = ListOffsetsResponse()
    for name, partitions in answers.items():
        response.topics.append(ListOffsetsTopicResponse(name=name, partitions=list(partitions.values())))
        yield None
    free_later(answers)
    return response


def error_response(
    request: ListOffsetsRequest, version: int, code: ErrorCode, message: str | None = None
) -> ListOffsetsResponse:
    """Returns a response with this error for every partition."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name, partitions=[_refuse(partition, code) for partition in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _refuse(partition: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=partition.partition_index, error_code=code)


def _look_up(
    context: RequestContext,
    request: ListOffsetsRequest,
    topic: str,
    wanted: ListOffsetsPartition,
) -> Work[ListOffsetsPartitionResponse]:
    timestamp = wanted.timestamp
    if timestamp < 0 and (
        timestamp < _EARLIEST_PENDING_UPLOAD or context.api_version < _SINCE_VERSION.get(timestamp, 0)
    ):
        return _refuse(wanted, ErrorCode.UNSUPPORTED_VERSION)
    try:
        registry, index, epoch = context.broker.partitions, wanted.partition_index, wanted.current_leader_epoch
        if request.replica_id == _DEBUGGING_REPLICA_ID:
            replica = local_replica(registry, topic, index, epoch)

            def is_current() -> bool:
                return local_replica(registry, topic, index) == replica

        else:
            partition = registry.get(topic, index, epoch)
            partition.check_leader_epoch(epoch)
            replica = LocalReplica(partition.log, partition.leader_epoch)

            def is_current() -> bool:
                return registry.get(topic, index) is partition

        found = _position(replica, timestamp, _end_for(request, replica.log))
        if found is None:
            found = yield from _search(context, replica.log, timestamp, is_current)
            if found is not None and found[1] >= _end_for(request, replica.log):
                found = None
        if request.replica_id == _CONSUMER_REPLICA_ID and (found is None or timestamp == LATEST):
            _check_high_watermark(partition)
    except KafkaError as error:
        is_unknown = error.code is ErrorCode.OFFSET_NOT_AVAILABLE and context.api_version < _OFFSET_NOT_AVAILABLE_SINCE
        return _refuse(wanted, ErrorCode.LEADER_NOT_AVAILABLE if is_unknown else error.code)
    if found is None:
        return ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    found_timestamp, offset, leader_epoch = found
    return ListOffsetsPartitionResponse(
        partition_index=wanted.partition_index,
        timestamp=found_timestamp,
        offset=offset,
        leader_epoch=leader_epoch if context.api_version >= 4 else NOTHING,
    )


def _end_for(request: ListOffsetsRequest, log: Log) -> int:
    """Returns the first offset that the client may not see."""
    if request.replica_id != _CONSUMER_REPLICA_ID:
        return log.log_end_offset
    return log.last_stable_offset if request.isolation_level == READ_COMMITTED else log.high_watermark


def _check_high_watermark(partition: Partition) -> None:
    """Raises OFFSET_NOT_AVAILABLE if the high watermark is below the offset at which this leader epoch began.

    The end offset, or the absence of an offset, may then contradict what clients saw before the epoch
    (`Partition.fetchOffsetForTimestamp` of Apache Kafka 4.3).
    """
    high_watermark = partition.log.high_watermark
    if high_watermark < partition.epoch_start_offset:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"the high watermark of {partition} is {high_watermark}, and leader epoch {partition.leader_epoch} began "
            f"at offset {partition.epoch_start_offset}",
        )


def _position(replica: LocalReplica, timestamp: int, end: int) -> tuple[int, int, int] | None:
    """Returns (timestamp, offset, leader epoch) for codes such as LATEST; None if records must be searched.

    Raises KAFKA_STORAGE_ERROR if the log is offline.
    """
    log = replica.log
    if log.is_offline:
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, log.offline_reason)
    if timestamp == LATEST:
        return NOTHING, end, replica.leader_epoch
    if timestamp in (EARLIEST, _EARLIEST_LOCAL):
        return NOTHING, log.log_start_offset, log.leader_epoch_at_start()
    if timestamp in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):  # there is no tiered storage
        return NOTHING, NOTHING, NOTHING
    return None


def _search(
    context: RequestContext, log: Log, timestamp: int, is_current: Callable[[], bool]
) -> Work[TimestampedOffset | None]:
    """Finds the first record that is not older than the timestamp, or the first with the highest timestamp.

    Opens small batches on the event loop, and large ones on a thread. Raises NOT_LEADER_OR_FOLLOWER as soon as
    `is_current` tells that this broker does not lead the partition any more, or follows it in another leader epoch.
    """
    search = log.search_max_timestamp() if timestamp == _MAX_TIMESTAMP else log.search_timestamp(Millis(timestamp))
    allowance = OpeningAllowance()
    found = None
    while True:
        try:
            batch = search.send(found)
        except StopIteration as end:
            result: TimestampedOffset | None = end.value
            return result
        if batch is None:
            found = None
            yield None
        else:
            try:
                found = allowance.open(batch)
                continue
            except OpensLater:
                found = yield from wait_for(context.broker.batch_opener.open_later(batch))
        if not is_current():
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"this broker's role in {log} has changed")
