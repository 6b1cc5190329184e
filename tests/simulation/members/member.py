"""A consumer process with all its restarts: the common part of all kinds of members.

It has two threads, as in the Java client. The application polls: it reads, commits from time to time, and lets the
member work. Heartbeats run independently of polls. The two protocols decide how a member joins its group and what it is
told there (`classic.py`, `consumer.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from tests.simulation.loop import Process
from tests.simulation.members.client import Client
from tests.simulation.members.reader import Reader
from tests.simulation.plan import MemberPlan

from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.offset_commit_request import OffsetCommitRequest, OffsetCommitRequestTopic
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponse

if TYPE_CHECKING:
    from tests.simulation.world import World

__all__ = ["REQUEST_TIMEOUT_MS", "Member"]

REQUEST_TIMEOUT_MS: Final = 5_000
METADATA_REFRESH_MS: Final = 2_000

_FIND_COORDINATOR: Final = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_TOPIC_IS_GONE: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})


class Member(ABC):
    """One consumer process."""

    def __init__(self, world: World, plan: MemberPlan, name: str | None = None) -> None:
        self._world = world
        self._loop = world.loop
        self.plan = plan
        self.name = name or plan.name
        self.process: Process | None = None
        self.topics = plan.topics
        self.former: list[tuple[str, int]] = []
        """Earlier member ids and epochs of this member, for its zombies."""
        self._forget()

    def _forget(self) -> None:
        """Resets the state to the plan."""
        self.member_id = ""
        self.epoch = -1
        """The generation or the member epoch."""
        self.reader = Reader(self._world, self.name, self.plan.group_id)
        now_ms = self._loop.now_ms
        self._next_commit_ms = now_ms + self.plan.commit_interval_ms
        self._next_refresh_ms = 0.0
        self._busy_until_ms = 0.0
        self._last_poll_ms = now_ms
        self._is_fetching_offsets = False

    # What the rest of the world sees

    @property
    def is_running(self) -> bool:
        """Whether the process exists, stopped or not."""
        return self.process is not None

    @property
    @abstractmethod
    def is_fenced(self) -> bool:
        """Whether the member was replaced by another process, and has ended."""

    @property
    @abstractmethod
    def is_at_rest(self) -> bool:
        """Whether the member has applied its assignment, and waits for nothing."""

    def wanted_topics(self) -> frozenset[str]:
        """Returns the existing topics that the member reads."""
        return frozenset(name for name in self.topics if name in self._world.topics.image.topics)

    # Start and stop

    def start(self) -> None:
        """Starts a new process, which knows only the plan."""
        self._forget()
        process = self.process = Process(self._loop)
        self._client = Client(self._world, self.name, self.plan.group_id, process)
        self._begin()
        self._loop.call_later(self._loop.between(0, 50), self._poll, process)
        self._loop.call_later(self.plan.heartbeat_interval_ms, self._beat, process)

    def crash(self) -> None:
        """Ends the process without leaving the group."""
        assert self.process is not None
        self._remember()
        self._client.vanish()
        self.process.kill()
        self.process = None
        self.reader.drop(self.reader.owned)
        self._end()

    def shut_down(self) -> None:
        """Ends the process cleanly: it commits and leaves the group."""
        if self.process is None:
            return
        if self.is_at_rest and self._client.is_connected:
            self._commit(only_new=True)
            self._leave()
        # The sent requests still arrive: the operating system closes connections after them.
        self.crash()

    def stall(self, milliseconds: int) -> None:
        """Stops the process (SIGSTOP), and continues it later (SIGCONT)."""
        process = self.process
        if process is not None and not process.is_stopped:
            process.stop()
            self._loop.call_later(milliseconds, process.go_on)

    def be_slow(self, milliseconds: int) -> None:
        """Makes the application slow to process its last poll."""
        self._busy_until_ms = self._loop.now_ms + milliseconds

    def recover(self) -> None:
        """Continues a stopped process, and ends its slowness."""
        self._busy_until_ms = 0.0
        if self.process is not None and self.process.is_stopped:
            self.process.go_on()

    @abstractmethod
    def resubscribe(self, topics: tuple[str, ...]) -> None:
        """Changes the subscription."""

    @abstractmethod
    def _begin(self) -> None:
        """Sets the state for a new process."""

    @abstractmethod
    def _end(self) -> None:
        """Sets the state for a process that has ended."""

    @abstractmethod
    def _leave(self) -> None:
        """Tells the coordinator that the member leaves."""

    def _remember(self) -> None:
        if self.member_id and self.epoch >= 0:
            self.former.append((self.member_id, self.epoch))

    # The application's thread

    def _poll(self) -> None:
        now_ms = self._loop.now_ms
        assert self.process is not None
        self._loop.call_later(self.plan.poll_interval_ms, self._poll, self.process)
        self._client.give_up_on_late_answers()
        if now_ms < self._busy_until_ms or self.is_fenced:
            return
        self._last_poll_ms = now_ms
        if now_ms >= self._next_refresh_ms:
            self._next_refresh_ms = now_ms + METADATA_REFRESH_MS
            self.reader.refresh()
            self._on_metadata(now_ms)
        if not self._client.is_connected:
            self._client.look_up()
        else:
            self._on_poll(now_ms)
        if self.reader.owned:
            self.reader.read()
            self._ask_for_places()
            if now_ms >= self._next_commit_ms and self._may_commit and self._client.is_connected:
                self._next_commit_ms = now_ms + self.plan.commit_interval_ms
                self._commit(only_new=self._loop.chance(0.5))

    def _on_metadata(self, now_ms: float) -> None:  # noqa: B027 - most have nothing to do then
        """Handles a metadata refresh of the client."""

    @abstractmethod
    def _on_poll(self, now_ms: float) -> None:
        """Does the member's work in a poll, while there is a connection."""

    @property
    @abstractmethod
    def _may_commit(self) -> bool:
        """Whether the member may commit offsets."""

    # Heartbeats

    @abstractmethod
    def _beat(self) -> None:
        """Sends a heartbeat if one is due, and schedules the next one."""

    @property
    def _polls_too_late(self) -> bool:
        """Whether the poll is so late (`max.poll.interval.ms`) that other members should get the partitions."""
        return self._loop.now_ms - self._last_poll_ms > self.plan.rebalance_timeout_ms

    # Offsets

    def _ask_for_places(self) -> None:
        if self._is_fetching_offsets or not self.reader.has_unknown_places() or not self._client.is_connected:
            return
        self._is_fetching_offsets = True
        request = self.reader.fetch_request(*self._fetch_identity())
        self._client.ask(request, 10, REQUEST_TIMEOUT_MS, self._on_offsets)

    def _fetch_identity(self) -> tuple[str | None, int]:
        """Returns member id and epoch for an OffsetFetch; classic members send none."""
        return None, -1

    def _on_offsets(self, answer: Message | None) -> None:
        self._is_fetching_offsets = False
        if answer is None:
            return
        assert isinstance(answer, OffsetFetchResponse)
        code = ErrorCode(answer.groups[0].error_code)
        if code is ErrorCode.NONE:
            self.reader.take_fetched(answer)
        else:
            self._on_fetch_refused(code)

    def _on_fetch_refused(self, code: ErrorCode) -> None:
        self._world.expect_retriable("OffsetFetch", code)
        self._note_coordinator(code)

    def _make_commit(self, *, only_new: bool) -> OffsetCommitRequest | None:
        def make(topics: list[OffsetCommitRequestTopic]) -> OffsetCommitRequest:
            return OffsetCommitRequest(
                group_id=self.plan.group_id,
                generation_id_or_member_epoch=self.epoch,
                member_id=self.member_id,
                group_instance_id=self.plan.instance_id,
                topics=topics,
            )

        return self.reader.commit_request(make, only_new=only_new)

    def _commit(self, *, only_new: bool) -> OffsetCommitRequest | None:
        """Commits the read offsets; returns None if there is nothing to commit or no connection."""
        request = self._make_commit(only_new=only_new)
        if request is None or not self._client.is_connected:
            return None

        def answered(answer: Message | None) -> None:
            codes: set[ErrorCode] | None = None
            if answer is not None:
                assert isinstance(answer, OffsetCommitResponse)
                codes = {ErrorCode(each.error_code) for topic in answer.topics for each in topic.partitions}
                codes -= _TOPIC_IS_GONE
                if codes == {ErrorCode.NONE}:
                    self.reader.take_committed(request)
            self._on_committed(request, codes)

        self._client.ask(request, self.plan.commit_version, REQUEST_TIMEOUT_MS, answered)
        return request

    @abstractmethod
    def _on_committed(self, request: OffsetCommitRequest, codes: set[ErrorCode] | None) -> None:
        """Handles the error codes of a commit's answer; None if there was no answer."""

    def _note_coordinator(self, code: ErrorCode) -> None:
        if code in _FIND_COORDINATOR:
            self._client.disconnect()
