"""Clients that create, widen and delete topics, and that look whether a part of such a change is ever visible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.simulation.brokers.clients.base import PASSING, Participant
from tests.simulation.clusters.plan import UNLIMITED
from tests.simulation.violation import Violation

from klamm.client.cluster_view import error_code
from klamm.client.errors import ConnectionFailed
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from klamm.protocol.schema.create_partitions_response import CreatePartitionsResponse
from klamm.protocol.schema.create_topics_request import CreatableTopic, CreateTopicsRequest
from klamm.protocol.schema.create_topics_response import CreateTopicsResponse
from klamm.protocol.schema.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from klamm.protocol.schema.delete_topics_response import DeleteTopicsResponse
from klamm.protocol.schema.metadata_request import MetadataRequest
from klamm.protocol.schema.metadata_response import MetadataResponse

if TYPE_CHECKING:
    from tests.simulation.clusters.world import ClusterWorld

__all__ = ["NewTopics", "NewTopicsLedger", "TopicWatcher"]

_PREFIX = "new-"
_LONGEST_MS = 400.0
"""A Metadata request waits for no other broker."""
_SETTLED_MS = 3_000.0
"""After the last fault, all brokers show the last state of all topics after this time."""
_DONE = frozenset({ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.INVALID_PARTITIONS})
_PASSING = PASSING | {ErrorCode.INVALID_REPLICATION_FACTOR}
"""Without a live broker there is none for a replica."""
_GONE = frozenset({ErrorCode.NONE})
_TIMES_UNKNOWN = 30
"""After so many answers that a topic is unknown, it was deleted. A broker that lags behind may not know a new topic."""


class NewTopicsLedger:
    """The numbers of partitions that each new topic may have."""

    def __init__(self) -> None:
        self.counts: dict[str, set[int]] = {}
        self.last: dict[str, int] = {}
        """The number of partitions at the end."""
        self.shown: dict[str, int] = {}
        """The number of partitions in the last Metadata response."""

    def check(self, name: str, indexes: list[int]) -> None:
        """Checks that a topic has all partitions of one of its states."""
        if len(indexes) not in self.counts.get(name, ()) or indexes != list(range(len(indexes))):
            raise Violation(0, f"{name} is shown with partitions {indexes}; it has {sorted(self.counts[name])} of them")

    @property
    def is_complete(self) -> bool:
        """Whether the last response has all new topics that were not deleted."""
        return self.shown == {name: count for name, count in self.last.items() if count}

    def check_end(self) -> None:
        """Checks the last response."""
        if not self.is_complete:
            raise Violation(0, f"the new topics are {self.shown}, and should be {self.last}")


class NewTopics(Participant):
    """An administrator who creates topics with many partitions."""

    def __init__(self, world: ClusterWorld, name: str) -> None:
        super().__init__(world, name)
        self._ledger = world.new_topics

    async def live(self) -> None:
        number = 0
        while not self.world.is_ending:
            number += 1
            await self._make(f"{_PREFIX}{number}")
            await self.world.think()
        self.is_finished = True

    async def _make(self, name: str) -> None:
        count = self.random.choice((1, 3, 10, 20))
        self._ledger.counts[name] = {count}
        topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        request = CreateTopicsRequest(timeout_ms=5_000, topics=[topic])
        is_sure = await self._until(request, CreateTopicsResponse, _DONE, "creation")
        self._ledger.last[name] = count
        self.note("has created %s with %d partitions", name, count)
        if self.random.random() < 0.6:
            more = count + self.random.choice((1, 5, 12))
            self._ledger.counts[name].add(more)
            growth = CreatePartitionsRequest(
                timeout_ms=5_000, topics=[CreatePartitionsTopic(name=name, count=more, assignments=None)]
            )
            await self._until(growth, CreatePartitionsResponse, _DONE, "growth")
            self._ledger.last[name] = more
            self.note("has widened %s to %d partitions", name, more)
        # A delayed request for the creation could create the topic again.
        if self.random.random() < 0.3 and is_sure and not self.world.plan.has_stalled_links:
            removal = DeleteTopicsRequest(timeout_ms=5_000, topics=[DeleteTopicState(name=name)])
            await self._until(removal, DeleteTopicsResponse, _GONE, "deletion")
            self._ledger.last[name] = 0
            self.note("has deleted %s", name)

    async def _until(self, request: Message, answer: type[Any], done: frozenset[ErrorCode], what: str) -> bool:
        """Repeats a request until it is done. A broker that lags behind may not know the topic yet.

        Returns whether all requests were answered.
        """
        unknown, is_sure = 0, True
        while True:
            try:
                found = await self.client.ask(request, answer)
            except ConnectionFailed as error:
                is_sure = False
                await self.rest(error)
                continue
            results = getattr(found, "topics", None) or getattr(found, "results", None) or found.responses
            code = error_code(results[0].error_code)
            unknown += code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if code in done or unknown > _TIMES_UNKNOWN:
                return is_sure
            if code not in _PASSING:
                raise Violation(0, f"the {what} of a topic was answered {code.name}: {results[0].error_message}")
            await self.rest(code)


class TopicWatcher(Participant):
    """A client that looks at the topics of any broker. No part of a topic is visible, and no answer comes late."""

    is_reader = True

    def __init__(self, world: ClusterWorld, name: str) -> None:
        super().__init__(world, name)
        self._ledger = world.new_topics
        # With unlimited faults brokers stand still for a while.
        self._may_be_late = world.plan.has_stalled_links or world.cluster.faults == UNLIMITED

    async def live(self) -> None:
        last_ms = 0.0
        request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        while True:
            is_last = self.world.is_quiet
            asked_ms = self.world.loop.now_ms
            try:
                answer = await self.client.ask(request, MetadataResponse)
            except ConnectionFailed as error:
                await self.rest(error)
                continue
            if self.world.loop.now_ms > asked_ms + _LONGEST_MS and not self._may_be_late:
                raise Violation(26, f"{self.name} waited {self.world.loop.now_ms - asked_ms:.0f} ms for metadata")
            self._ledger.shown = {}
            for topic in answer.topics:
                name = topic.name or ""
                if name.startswith(_PREFIX):
                    self._ledger.check(name, sorted(partition.partition_index for partition in topic.partitions))
                    self._ledger.shown[name] = len(topic.partitions)
            last_ms = last_ms or (self.world.loop.now_ms if is_last else 0.0)
            if is_last and (self._ledger.is_complete or self.world.loop.now_ms > last_ms + _SETTLED_MS):
                break
            await self.world.think()
        self.is_finished = True
