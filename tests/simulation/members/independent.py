"""A consumer without group membership: it chooses its partitions itself, and only stores its offsets with the
coordinator.

Its group is a simple group: the group begins with its first offset, has no members, and ends when its offsets expire.
The consumer follows Java's `KafkaConsumer.assign`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.loop import Process
from tests.simulation.members.client import Client
from tests.simulation.members.reader import Reader

from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["IndependentReader"]

_POLL_MS: Final = 1_000
_POLLS_PER_COMMIT: Final = 4
_POLLS_PER_LIFE: Final = 15
_TIMEOUT_MS: Final = 5_000
_FIND_COORDINATOR: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class IndependentReader:
    """One such consumer. It restarts from time to time, and continues at its committed offsets."""

    def __init__(self, world: World, group_id: str) -> None:
        self._world = world
        self._group_id = group_id
        self._polls = 0
        self._is_fetching = False

    def start(self) -> None:
        """Starts a new process, and polls."""
        self._process = Process(self._world.loop)
        self._client = Client(self._world, self._group_id, self._group_id, self._process)
        self._reader = Reader(self._world, self._group_id, self._group_id)
        self._is_fetching = False
        self._poll()

    def _poll(self) -> None:
        self._polls += 1
        if self._polls % _POLLS_PER_LIFE == 0:
            self._client.vanish()
            self._process.kill()
            self.start()
            return
        self._world.loop.call_later(_POLL_MS, self._poll, self._process)
        self._client.give_up_on_late_answers()
        topics = self._world.topics.image.topics
        wanted = [(name, partition.index) for name, topic in topics.items() for partition in topic.partitions]
        self._reader.refresh()
        if self._reader.owned != frozenset(wanted):
            self._reader.assign(wanted)
        self._reader.read()
        if not self._client.is_connected:
            self._client.look_up()
            return
        if self._reader.has_unknown_places() and not self._is_fetching:
            self._is_fetching = True
            self._client.ask(self._reader.fetch_request(None, -1), 10, _TIMEOUT_MS, self._on_offsets)
        elif self._polls % _POLLS_PER_COMMIT == 0:
            self._commit()

    def _on_offsets(self, answer: Message | None) -> None:
        self._is_fetching = False
        if answer is not None:
            assert isinstance(answer, OffsetFetchResponse)
            code = ErrorCode(answer.groups[0].error_code)
            if code is ErrorCode.NONE:
                self._reader.take_fetched(answer)
            else:
                self._note("OffsetFetch", code)

    def _commit(self) -> None:
        def make(topics: list[OffsetCommitRequestTopic]) -> OffsetCommitRequest:
            return OffsetCommitRequest(group_id=self._group_id, topics=topics)

        request = self._reader.commit_request(make, only_new=self._world.loop.chance(0.5))
        if request is not None:
            self._client.ask(request, 10, _TIMEOUT_MS, self._on_committed)

    def _on_committed(self, answer: Message | None) -> None:
        if answer is not None:
            assert isinstance(answer, OffsetCommitResponse)
            codes = {ErrorCode(each.error_code) for topic in answer.topics for each in topic.partitions}
            gone = {ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
            for code in sorted(codes - gone):
                self._note("OffsetCommit", code)

    def _note(self, what: str, code: ErrorCode) -> None:
        self._world.expect_retriable(what, code)
        if code in _FIND_COORDINATOR:
            self._client.disconnect()
