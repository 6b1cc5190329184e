"""Routes a request from a handler to the shard that decides it, for both coordinators.

A coordinator answers nothing before `start` and after `stop`. A key (a group id, a transactional id) belongs to one
partition of the coordinator's internal topic, by Java's string hash. The runtime decides the request on that partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Generic, TypeVar

from klamm.core.coordinator.java_hash import partition_for
from klamm.core.coordinator.shard_contract import ClientContext, DeletedTopic, Result, Shard, Ticket
from klamm.metadata.image import MetadataImage
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.types import LeaderEpoch, Millis, PartitionIndex
from klamm.runtime.answers import Answer, gather
from klamm.runtime.coordinator_runtime import CoordinatorRuntime
from klamm.runtime.image_topics import ImageTopics

__all__ = ["CoordinatorFacade"]

S = TypeVar("S", bound=Shard)
Q = TypeVar("Q", bound=Message)
R = TypeVar("R", bound=Message)

_REMEMBERED_KEYS = 10_000


class CoordinatorFacade(Generic[S]):
    """The common part of the group coordinator and the transaction coordinator.

    `partition_count` returns how many partitions the internal topic has, or will have. It is called at the start, and
    when the topic is created.
    """

    def __init__(self, runtime: CoordinatorRuntime[S], partition_count: Callable[[], int]) -> None:
        self._runtime = runtime
        self._count_partitions = partition_count
        self._partition_count = 0
        self._topics: ImageTopics | None = None
        # The hash reads every character of the key, and the same keys come again and again.
        self._partition_of = lru_cache(maxsize=_REMEMBERED_KEYS)(self._compute_partition)

    # -- life ----------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Starts to answer. Before `start` and after `stop`, each request gets COORDINATOR_NOT_AVAILABLE."""
        self._partition_count = self._count_partitions()
        self._partition_of.cache_clear()

    def stop(self) -> None:
        """Gives up all partitions; parked requests get NOT_COORDINATOR."""
        self._partition_count = 0
        self._runtime.stop()

    def on_leadership(self, partition: PartitionIndex, leader_epoch: LeaderEpoch) -> None:
        """Loads a partition that this broker leads now.

        Requests for the partition get COORDINATOR_LOAD_IN_PROGRESS until it is loaded.
        """
        self._runtime.load(partition, leader_epoch)

    def on_resignation(self, partition: PartitionIndex) -> None:
        """Drops a partition that this broker does not lead any more; parked requests get NOT_COORDINATOR."""
        self._runtime.unload(partition)

    def on_metadata_update(self, old: MetadataImage, new: MetadataImage) -> None:
        """Tells all shards about a change of the cluster's topics or brokers, and about topics that are deleted."""
        if old.topics is new.topics and old.registrations is new.registrations:
            return
        internal_topic = self._runtime.topic
        if self._partition_count and internal_topic not in old.topics and internal_topic in new.topics:
            # Another broker may have created the topic, with its own number of partitions.
            self.start()
        gone = old.topics_by_id.keys() - new.topics_by_id.keys()
        deleted = [DeletedTopic(old.topics_by_id[topic_id].name, topic_id) for topic_id in sorted(gone)]
        self._topics = ImageTopics(new, self._topics)
        self._runtime.on_metadata_update(self._topics, deleted)

    @property
    def skipped_records(self) -> int:
        """How many records of the partitions led here could not be read when they were loaded."""
        return self._runtime.skipped_records

    # -- from a key to its shard ---------------------------------------------------------------------------------------

    def partition_for(self, key: str) -> PartitionIndex:
        """Returns the partition of the internal topic that is responsible for the key."""
        return self._partition_of(key)

    def _compute_partition(self, key: str) -> PartitionIndex:
        return PartitionIndex(partition_for(key, self._partition_count or self._count_partitions()))

    def _shard_of(self, key: str) -> S | None:
        """Returns the shard of the key, None if its partition is not led here or not loaded yet."""
        return self._runtime.shard(self._partition_of(key)) if self._partition_count else None

    def _slices(self, keys_of: Callable[[S], Iterable[str]], size: int) -> list[tuple[PartitionIndex, list[str]]]:
        """Returns the keys that are known now, by partition and at most `size` at a time.

        A partition without keys yields one empty slice, so that a list asks each partition.
        """
        slices = []
        for partition in self._runtime.partitions():
            shard = self._runtime.shard(partition)
            keys = [] if shard is None else list(keys_of(shard))
            slices += [(partition, keys[start : start + size]) for start in range(0, max(len(keys), 1), size)]
        return slices

    # -- requests ------------------------------------------------------------------------------------------------------

    def _ask(
        self,
        key: str,
        handle: Callable[[S, Q, ClientContext, Ticket, Millis], Result],
        request: Q,
        context: ClientContext,
        refuse: Callable[[Q, ErrorCode], R],
        *,
        empty_key: ErrorCode | None = None,
        may_linger: bool = False,
        request_fingerprint: bytes = b"",
    ) -> Answer[R]:
        """Has the shard of the key decide the request.

        `refuse` builds the response for an error code. `empty_key` is the error for an empty key; None if the empty
        key is valid. `may_linger` and `request_fingerprint`: see `CoordinatorRuntime.submit`.
        """
        if not self._partition_count:
            return refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if empty_key is not None and not key:
            return refuse(request, empty_key)
        return self._runtime.submit(
            self._partition_of(key),
            handle,
            request,
            context,
            refuse,
            may_linger=may_linger,
            request_fingerprint=request_fingerprint,
        )

    def _ask_each(
        self,
        keys: Iterable[str],
        handle: Callable[[S, Q, ClientContext, Ticket, Millis], Result],
        request_for: Callable[[list[str]], Q],
        context: ClientContext,
        refuse: Callable[[Q, ErrorCode], R],
    ) -> Answer[list[R]]:
        """Has each partition that is responsible for some of the keys decide a request about those keys."""
        by_partition: dict[PartitionIndex, list[str]] = {}
        for key in keys:
            by_partition.setdefault(self._partition_of(key), []).append(key)
        return gather(
            [
                self._runtime.submit(partition, handle, request_for(of_partition), context, refuse)
                for partition, of_partition in by_partition.items()
            ]
        )

    def _ask_all(
        self,
        handle: Callable[[S, Q, ClientContext, Ticket, Millis], Result],
        request: Q,
        context: ClientContext,
        refuse: Callable[[Q, ErrorCode], R],
    ) -> Answer[list[R]]:
        """Has all partitions led here decide the same request."""
        return gather(
            [
                self._runtime.submit(partition, handle, request, context, refuse)
                for partition in self._runtime.partitions()
            ]
        )
