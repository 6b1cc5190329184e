"""The reading part of a consumer: its partitions, its positions, and the offsets to commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from klamm.protocol.message import Message
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse
from klamm.protocol.types import TopicId

if TYPE_CHECKING:
    from tests.simulation.members.assignment import Partition
    from tests.simulation.topics import DataPartition
    from tests.simulation.world import World

__all__ = ["Reader"]

_RECORDS_PER_POLL = 500


class _Place:
    """One owned partition."""

    __slots__ = ("committed", "offset", "topic_id")

    def __init__(self, topic_id: TopicId) -> None:
        self.topic_id = topic_id
        self.offset: int | None = None
        """The next record to read; None until the committed offset is known."""
        self.committed = -1


class Reader:
    """The partitions that a member owns and reads. A deleted topic is not read any more, even if a new topic has its
    name.
    """

    def __init__(self, world: World, name: str, group_id: str) -> None:
        self._world = world
        self._name = name
        self._group_id = group_id
        self._places: dict[Partition, _Place] = {}

    @property
    def owned(self) -> frozenset[Partition]:
        """The owned partitions."""
        return frozenset(self._places)

    def assign(self, partitions: Iterable[Partition], *, is_told: bool = False) -> None:
        """Replaces the owned partitions; partitions that were owned before keep their position.

        `is_told` is set if an assignment says so.
        """
        before = self._places
        self._places = {}
        for partition in sorted(partitions):
            topic = self._world.topics.image.topics.get(partition[0])
            place = before.get(partition)
            if topic is None:
                continue
            self._places[partition] = (
                place if place is not None and place.topic_id == topic.topic_id else _Place(topic.topic_id)
            )
        self._tell(before, is_told=is_told)

    @property
    def owned_ids(self) -> frozenset[DataPartition]:
        """The owned partitions, by topic id."""
        return frozenset((place.topic_id, partition[1]) for partition, place in self._places.items())

    def assign_ids(self, partitions: Iterable[DataPartition]) -> None:
        """Replaces the owned partitions, without partitions of deleted topics."""
        before = self._places
        known = self.owned_places()
        self._places = {}
        for key in sorted(partitions):
            topic = self._world.topics.image.topics_by_id.get(key[0])
            if topic is not None:
                self._places[topic.name, key[1]] = known.get(key) or _Place(key[0])
        self._tell(before, is_told=True)

    def owned_places(self) -> dict[DataPartition, _Place]:
        """Returns the position in each partition."""
        return {(place.topic_id, index): place for (_, index), place in self._places.items()}

    def refresh(self) -> None:
        """Detects topics that were deleted and created again, and restarts the positions of their partitions."""
        topics = self._world.topics.image.topics
        for partition, place in self._places.items():
            topic = topics.get(partition[0])
            if topic is not None and topic.topic_id != place.topic_id:
                self.assign(list(self._places))
                return

    def drop(self, partitions: Iterable[Partition]) -> None:
        """Gives up partitions."""
        before = dict(self._places)
        for partition in partitions:
            self._places.pop(partition, None)
        self._tell(before)

    def _tell(self, before: dict[Partition, _Place], *, is_told: bool = False) -> None:
        self._world.checkers.on_owned(
            self._group_id,
            self._name,
            frozenset((place.topic_id, partition[1]) for partition, place in before.items()),
            frozenset((place.topic_id, partition[1]) for partition, place in self._places.items()),
            is_told=is_told,
        )

    # Reading

    def read(self) -> None:
        """Reads the available records of every partition with a known position."""
        topics = self._world.topics
        for partition, place in self._places.items():
            if place.offset is not None:
                key = (place.topic_id, partition[1])
                end = min(topics.end_offset(key), place.offset + _RECORDS_PER_POLL)
                if end > place.offset:
                    self._world.checkers.on_read(self._group_id, self._name, key, place.offset, end)
                    place.offset = end

    def has_unknown_places(self) -> bool:
        """Returns whether committed offsets must be fetched."""
        return any(place.offset is None for place in self._places.values())

    # Committed offsets

    def fetch_request(self, member_id: str | None, member_epoch: int) -> OffsetFetchRequest:
        """Returns the request for the missing committed offsets."""
        topics: dict[TopicId, OffsetFetchRequestTopics] = {}
        for (name, index), place in self._places.items():
            if place.offset is None:
                topic = topics.get(place.topic_id)
                if topic is None:
                    topic = topics[place.topic_id] = OffsetFetchRequestTopics(
                        name=name, topic_id=place.topic_id, partition_indexes=[]
                    )
                topic.partition_indexes.append(index)
        group = OffsetFetchRequestGroup(
            group_id=self._group_id, member_id=member_id, member_epoch=member_epoch, topics=list(topics.values())
        )
        return OffsetFetchRequest(groups=[group])

    def take_fetched(self, response: OffsetFetchResponse) -> None:
        """Sets the positions to the committed offsets, or to the beginning."""
        places = self.owned_places()
        for topic in response.groups[0].topics:
            for fetched in topic.partitions:
                place = places.get((TopicId(topic.topic_id), fetched.partition_index))
                if place is not None and place.offset is None and not fetched.error_code:
                    place.committed = fetched.committed_offset
                    place.offset = max(fetched.committed_offset, 0)

    def commit_request(
        self, make: Callable[[list[OffsetCommitRequestTopic]], OffsetCommitRequest], *, only_new: bool
    ) -> OffsetCommitRequest | None:
        """Returns the request that commits the positions; None if there is nothing to commit."""
        topics: dict[TopicId, OffsetCommitRequestTopic] = {}
        for (name, index), place in self._places.items():
            if place.offset is None or (only_new and place.offset == max(place.committed, 0)):
                continue
            topic = topics.get(place.topic_id)
            if topic is None:
                topic = topics[place.topic_id] = OffsetCommitRequestTopic(
                    name=name, topic_id=place.topic_id, partitions=[]
                )
            topic.partitions.append(OffsetCommitRequestPartition(partition_index=index, committed_offset=place.offset))
        return make(list(topics.values())) if topics else None

    def take_committed(self, request: Message) -> None:
        """Records an accepted commit."""
        assert isinstance(request, OffsetCommitRequest)
        places = self.owned_places()
        for topic in request.topics:
            for partition in topic.partitions:
                place = places.get((TopicId(topic.topic_id), partition.partition_index))
                if place is not None:
                    place.committed = partition.committed_offset
