"""A Produce request with acks=all that waits until its batches are committed.

A request waits if commits wait for followers, or for the disk (`klamm.fsync=ack`).

Source: `DelayedProduce` of Apache Kafka 4.3. The response contains the offsets even if the wait fails.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.produce import ProduceTopicResponse
from klamm.protocol.types import Offset, TopicId

if TYPE_CHECKING:
    from klamm.broker.partitions.partition import Partition
    from klamm.broker.partitions.partition_registry import PartitionRegistry

__all__ = ["DelayedProduce", "Leaderships", "Uncommitted", "find_uncommitted"]

R = TypeVar("R")


class Uncommitted(NamedTuple):
    """A batch that is appended but not committed, and the position of its answer: topic index and partition index."""

    topic_place: int
    partition_place: int
    partition: Partition
    last_offset: Offset


class Leaderships:
    """The partitions to which the batches of one request were appended, if some of them are appended later than others.

    This broker may stop leading a partition meanwhile and lead it again, or the topic may be created again. Then there
    is another `Partition`, whose log may not have the batch any more.
    """

    __slots__ = ("_appended_to", "_registry")

    def __init__(self, registry: PartitionRegistry) -> None:
        self._registry = registry
        self._appended_to: dict[tuple[str | TopicId | None, int], Partition] = {}

    def note(self, answers: Sequence[ProduceTopicResponse]) -> None:
        """Notes the partitions of the successful answers. Must be called in the step of the appends."""
        for topic in answers:
            for answer in topic.partitions:
                if answer.error_code:
                    continue
                with suppress(KafkaError):  # the log may be offline since the append
                    partition = _find(self._registry, topic, answer.index)
                    self._appended_to[topic.topic_id or topic.name, answer.index] = partition

    def check(self, answers: list[ProduceTopicResponse]) -> list[ProduceTopicResponse]:
        """Returns the answers, with NOT_LEADER_OR_FOLLOWER for the partitions that are not the same any more.

        `find_uncommitted` must follow in the same step. It refuses the partitions that this broker does not lead.
        """
        for topic_place, topic in enumerate(answers):
            for partition_place, answer in enumerate(topic.partitions):
                if answer.error_code:
                    continue
                try:
                    partition = _find(self._registry, topic, answer.index)
                except KafkaError:
                    continue
                if partition is not self._appended_to.get((topic.topic_id or topic.name, answer.index)):
                    answers = _with_code(answers, topic_place, partition_place, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return answers


def _find(registry: PartitionRegistry, topic: ProduceTopicResponse, index: int) -> Partition:
    """Returns the partition. Raises the errors of `PartitionRegistry.get`."""
    if topic.topic_id is None:
        return registry.get(topic.name or "", index)
    return registry.get_by_id(topic.topic_id, index)


def find_uncommitted(
    partitions: PartitionRegistry, answers: list[ProduceTopicResponse]
) -> tuple[list[ProduceTopicResponse], list[Uncommitted]]:
    """Returns the answers, and the successful ones whose batch is not committed yet.

    Each entry waits for the current end of the log. The batch of a retry may lie further back, but it is committed with
    the same sync or Fetch. As in Kafka, a successful answer becomes an error if this broker stopped leading the
    partition after the append: while another batch of the request was opened, for example (see also `Leaderships`). The
    answer is NOT_ENOUGH_REPLICAS_AFTER_APPEND if fewer replicas than `min.insync.replicas` are in sync by now.
    """
    found = []
    for topic_place, topic in enumerate(answers):
        for partition_place, answer in enumerate(topic.partitions):
            if answer.error_code:
                continue
            try:
                partition = _find(partitions, topic, answer.index)
                partition.check_accepts_writes()
            except KafkaError as error:
                answers = _with_code(answers, topic_place, partition_place, error.code)
                continue
            log = partition.log
            if log.high_watermark < log.log_end_offset:
                last_offset = Offset(log.log_end_offset - 1)
                found.append(Uncommitted(topic_place, partition_place, partition, last_offset))
            elif partition.lacks_in_sync_replicas:
                code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
                answers = _with_code(answers, topic_place, partition_place, code)
    return answers, found


def _with_code(
    answers: list[ProduceTopicResponse], topic_place: int, partition_place: int, code: ErrorCode
) -> list[ProduceTopicResponse]:
    topic = answers[topic_place]
    partitions = list(topic.partitions)
    partitions[partition_place] = partitions[partition_place]._replace(error_code=code)
    return [*answers[:topic_place], topic._replace(partitions=partitions), *answers[topic_place + 1 :]]


class DelayedProduce(Generic[R]):
    """One request, or a part of it, from its appends to its response. `finish` builds the result from the answers."""

    __slots__ = ("_answers", "_finish", "_future", "_observers", "_open", "_timer", "_uncommitted")

    def __init__(
        self,
        answers: Sequence[ProduceTopicResponse],
        uncommitted: Sequence[Uncommitted],
        finish: Callable[[list[ProduceTopicResponse]], R],
    ) -> None:
        self._finish = finish
        self._answers = [ProduceTopicResponse(name, topic_id, list(of)) for name, topic_id, of in answers]
        self._uncommitted = uncommitted
        self._observers = [_One(self, waiting) for waiting in uncommitted]
        self._open = len(uncommitted)
        self._future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None

    def wait(self, timeout_ms: int) -> asyncio.Future[R]:
        """Returns the future result: set when all batches are committed, or after `timeout_ms`.

        At the timeout, batches that are not committed get REQUEST_TIMED_OUT.
        """
        for waiting, observer in zip(self._uncommitted, self._observers, strict=True):
            waiting.partition.when_committed(waiting.last_offset, observer)
        self._timer = asyncio.get_running_loop().call_later(max(timeout_ms, 0) / 1000, self._time_out)
        self._future.add_done_callback(self._stop_waiting)
        return self._future

    def settle(self, waiting: Uncommitted, code: ErrorCode) -> None:
        """Records the outcome of one batch: committed (`none`), or the error because of which it will not be."""
        if self._future.done():
            return
        if code is not ErrorCode.NONE:
            self._refuse(waiting, code)
        self._open -= 1
        if not self._open:
            self._future.set_result(self._finish(self._answers))

    def _refuse(self, waiting: Uncommitted, code: ErrorCode) -> None:
        self._answers = _with_code(self._answers, waiting.topic_place, waiting.partition_place, code)

    def _time_out(self) -> None:
        if self._future.done():
            return
        for waiting in self._uncommitted:
            if waiting.partition.log.high_watermark <= waiting.last_offset:
                self._refuse(waiting, ErrorCode.REQUEST_TIMED_OUT)
        self._future.set_result(self._finish(self._answers))

    def _stop_waiting(self, future: asyncio.Future[R]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._open:  # the request timed out, or its client has disconnected
            for waiting, observer in zip(self._uncommitted, self._observers, strict=True):
                waiting.partition.forget_commit(observer)


class _One:
    """Commit observer for one batch of a request."""

    __slots__ = ("_of", "_waiting")

    def __init__(self, of: DelayedProduce[Any], waiting: Uncommitted) -> None:
        self._of = of
        self._waiting = waiting

    def committed(self) -> None:
        # Enough replicas are in sync: with fewer the high watermark stands still (`next_high_watermark`).
        self._of.settle(self._waiting, ErrorCode.NONE)

    def failed(self, code: ErrorCode) -> None:
        self._of.settle(self._waiting, code)
