"""Appends the markers that end transactions to the partitions that this broker leads.

In an ordinary partition a marker is a control batch. In a partition of `__consumer_offsets` the group coordinator
writes the marker, because the offsets of the transaction become visible, or are dropped, with it.

Source: Apache Kafka's `KafkaApis.handleWriteTxnMarkersRequest` (4.3).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from klamm.broker.partitions.role import Role
from klamm.broker.time_slices import Work, finish_in_steps, wait_for
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.internal_topic_names import OFFSETS_TOPIC
from klamm.protocol.schema.write_txn_markers_request import WritableTxnMarker
from klamm.protocol.types import Millis, Offset, TopicPartition
from klamm.runtime.answers import then

if TYPE_CHECKING:
    from klamm.broker.partitions.partition import Partition
    from klamm.broker.partitions.partition_registry import PartitionRegistry
    from klamm.core.txn.markers import TransactionMarker
    from klamm.protocol.schema.write_txn_markers_response import WritableTxnMarkerPartitionResult
    from klamm.runtime.group_coordinator import GroupCoordinator

__all__ = ["MarkersUnderWay", "TransactionMarkers"]

_logger = logging.getLogger(__name__)

MarkersUnderWay: TypeAlias = "Mapping[TopicPartition, ErrorCode | Awaitable[ErrorCode]]"
"""The error codes of markers that were appended or refused, by partition; awaitables of those not committed yet."""


class TransactionMarkers:
    """Writes transaction markers for this broker's transaction coordinator and for WriteTxnMarkers requests."""

    def __init__(
        self,
        partitions: PartitionRegistry,
        groups: GroupCoordinator,
        *,
        clock: Callable[[], Millis],
        timeout_ms: int,
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._clock = clock
        self._timeout_s = timeout_ms / 1000

    async def write_markers(self, marker: TransactionMarker) -> Mapping[TopicPartition, ErrorCode]:
        """Appends the marker, in steps, to each of its partitions and waits until it is committed there.

        Returns an error code per partition: UNKNOWN_TOPIC_OR_PARTITION if it does not exist or has no replica here,
        NOT_LEADER_OR_FOLLOWER if another replica leads it, or if this broker stops leading it before the commit, or if
        a partition of `__consumer_offsets` is loading. INVALID_PRODUCER_EPOCH and TRANSACTION_COORDINATOR_FENCED if a
        newer epoch has written, REQUEST_TIMED_OUT if the marker is appended but not committed in time. Raises nothing.
        """
        return await finish_in_steps(self._write_in_steps(marker))

    def _write_in_steps(self, marker: TransactionMarker) -> Work[Mapping[TopicPartition, ErrorCode]]:
        """Does the same as `write_markers`, as a piece of work."""
        return (yield from self.outcomes_in_steps((yield from self.begin_in_steps(marker))))

    def begin_in_steps(self, marker: TransactionMarker) -> Work[MarkersUnderWay]:
        """Appends the marker to each of its partitions, and does not wait until it is committed there."""
        under_way: dict[TopicPartition, ErrorCode | Awaitable[ErrorCode]] = {}
        for topic_partition in marker.partitions:
            under_way[topic_partition] = self._write(topic_partition, marker)
            yield None
        return under_way

    def outcomes_in_steps(self, under_way: MarkersUnderWay) -> Work[Mapping[TopicPartition, ErrorCode]]:
        """Waits until the markers of `begin_in_steps` are committed; returns the error codes of `write_markers`."""
        # All markers are in flight already, so waiting for one after another costs no extra time.
        outcomes: dict[TopicPartition, ErrorCode] = {}
        for topic_partition, outcome in under_way.items():
            outcomes[topic_partition] = outcome if isinstance(outcome, ErrorCode) else (yield from wait_for(outcome))
        return outcomes

    def _write(self, topic_partition: TopicPartition, marker: TransactionMarker) -> ErrorCode | Awaitable[ErrorCode]:
        """Appends one marker and returns its error code, or an awaitable of the code."""
        topic, index = topic_partition
        partition = self._find(topic, index)
        if isinstance(partition, ErrorCode):
            return partition
        try:
            if topic == OFFSETS_TOPIC:
                return then(self._groups.end_transaction(index, _of_groups(marker)), _code_of)
            partition.check_in_sync_replicas()
            now_ms = self._clock()
            info = partition.append(
                encode_end_transaction_marker(
                    EndTransactionMarker(marker.is_commit, marker.coordinator_epoch),
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                    timestamp_ms=now_ms,
                ),
                now_ms,
                from_client=False,
                transaction_version=marker.transaction_version,
            )
        except KafkaError as error:
            _logger.info("the marker of producer %d for %s: %s", marker.producer_id, topic_partition, error)
            return error.code
        except Exception:
            _logger.exception("the marker of producer %d for %s can't be written", marker.producer_id, topic_partition)
            return ErrorCode.UNKNOWN_SERVER_ERROR
        if partition.log.high_watermark > info.last_offset:
            return ErrorCode.NONE
        return _Commit(partition, info.last_offset, self._timeout_s)

    def _find(self, topic: str, index: int) -> Partition | ErrorCode:
        """Returns the partition if this broker leads it and its log is online, otherwise Kafka's error code."""
        try:
            partition = self._partitions.get(topic, index)
        except KafkaError as error:
            is_follower = self._partitions.role(topic, index) is Role.FOLLOWER
            return error.code if is_follower else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition.log.is_offline else partition


class _Commit:
    """A marker that is appended but not committed. Awaiting it returns its error code; the timeout starts now."""

    def __init__(self, partition: Partition, last_offset: Offset, timeout_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._partition = partition
        self._future: asyncio.Future[ErrorCode] = loop.create_future()
        self._deadline_s = loop.time() + timeout_s
        partition.when_committed(last_offset, self)

    def __await__(self) -> Generator[Any, None, ErrorCode]:
        return self._wait().__await__()

    async def _wait(self) -> ErrorCode:
        if self._future.done():
            return self._future.result()
        try:
            async with asyncio.timeout_at(self._deadline_s):
                return await self._future
        except TimeoutError:
            return ErrorCode.REQUEST_TIMED_OUT
        finally:
            if self._future.cancelled():  # the wait timed out, or its caller was cancelled
                self._partition.forget_commit(self)

    def committed(self) -> None:
        self._settle(ErrorCode.NONE)

    def failed(self, code: ErrorCode) -> None:
        self._settle(code)

    def _settle(self, code: ErrorCode) -> None:
        if not self._future.done():
            self._future.set_result(code)


def _of_groups(marker: TransactionMarker) -> WritableTxnMarker:
    return WritableTxnMarker(
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transaction_result=marker.is_commit,
        coordinator_epoch=marker.coordinator_epoch,
        transaction_version=marker.transaction_version,
    )


def _code_of(result: WritableTxnMarkerPartitionResult) -> ErrorCode:
    return ErrorCode(result.error_code)
