"""The membership of a worker in its group: the one thread that polls, commits, pauses and resumes.

Theory of operation. Handlers run elsewhere, so the thread polls all the time and a slow handler does not cost the
membership. All callbacks of the consumer (partitions come and go, commits are answered) run in this thread, within a
poll. When the group revokes partitions, the callback waits for what runs, commits, and returns; the group gives the
partitions to other members after that. Partitions that are lost already are dropped without a commit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import Any, Final

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, OFFSET_INVALID, Consumer, KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as ConsumerPartition

from klamm.client.commit_metadata import metadata_of
from klamm.core.delivery.commit_text import decode_note
from klamm.core.delivery.work import Received
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.worker.errors import WorkerError
from klamm.worker.handler_runs import HandlerRuns
from klamm.worker.member_commits import MemberCommits, name_of
from klamm.worker.record import headers_size_bytes

__all__ = ["Membership", "is_cooperative"]

_logger = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.05
_ROOM_SECONDS: Final = 0.1
"""How long the thread waits for room in a full window before it pauses partitions."""
_MOST_AT_ONCE: Final = 2000
_ANSWER_SECONDS: Final = 30.0
_END_SECONDS: Final = 5.0
"""How long an assignment waits for the ends of its partitions, which may have no leader."""
_LEAST_END_SECONDS: Final = 0.25
"""The least time for one question, as long as the time of the assignment is not over."""
_REBALANCE_SECONDS: Final = 10.0
"""How long a member that leaves makes its last commit again while a rebalance refuses it."""
_HOPELESS: Final = (
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.INVALID_GROUP_ID,
    KafkaError.INVALID_SESSION_TIMEOUT,
    KafkaError._AUTHENTICATION,
    KafkaError._SSL,
)
"""Errors after which the consumer can't go on without a change by a person."""
_OF_COORDINATOR: Final = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
    KafkaError._WAIT_COORD,
)
"""Errors that end when the group's coordinator has moved, or has loaded the group."""


class Membership:
    """One member of the group."""

    def __init__(
        self,
        settings: Mapping[str, Any],
        handlers: Mapping[str, HandlerRuns],
        *,
        commit_every: float,
        drain_seconds: float,
        on_gone: Callable[[], None],
        on_turn: Callable[[], None],
    ) -> None:
        self._handlers = handlers
        """The handler of each topic."""
        self._all_runs = list(dict.fromkeys(handlers.values()))
        self._commit_every = commit_every
        self._drain_seconds = drain_seconds
        self._on_gone = on_gone
        self._on_turn = on_turn
        self._room = Event()
        self._starts: dict[tuple[str | None, int | None], ConsumerPartition] = {}
        """Where partitions begin that were assigned during the current call."""
        # One read leaves room for the other partitions: a partition is paused at the latest with half of the window.
        quarters = [max(1, runs.plan.window.records // 4) for runs in self._all_runs]
        self._most_at_once = min(_MOST_AT_ONCE, *quarters)
        self._reset = (
            OFFSET_END if settings.get("auto.offset.reset") in ("latest", "largest", "end") else OFFSET_BEGINNING
        )
        self._is_cooperative = is_cooperative(settings)
        self._is_leaving = False
        self._next_commit = 0.0
        self._names: dict[str, dict[int, TopicPartition]] = {topic: {} for topic in handlers}
        for runs in self._all_runs:
            runs.has_room = self._room.set
        self._commits = MemberCommits(self._all_runs)
        self._consumer = Consumer({**settings, "enable.auto.commit": False, "on_commit": self._commits.take_answer})
        self._commits.consumer = self._consumer

    def run(self, stopping: Event) -> None:
        """Polls until `stopping` is set, then drains, commits and leaves the group."""
        self._consumer.subscribe(
            list(self._handlers), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )
        self._next_commit = time.monotonic() + self._commit_every
        try:
            while not stopping.is_set():
                self._poll()
                self._on_turn()
                self._commit_in_time()
            self._give_back([name for runs in self._all_runs for name in runs.delivery.partitions])
            self._commit_refused()
        except KeyboardInterrupt:
            self._drain_seconds = 0.0  # the second Ctrl-C: partitions that go away below wait for no handler
            raise
        finally:
            self._is_leaving = True
            self._consumer.close()

    def _commit_in_time(self) -> None:
        """Commits what has changed, if it is time to."""
        if time.monotonic() >= self._next_commit:
            self._commits.commit_changes()
            self._next_commit = time.monotonic() + self._commit_every

    def _commit_refused(self) -> None:
        """Makes commits again that were refused because another member joined or left at this moment."""
        ends = time.monotonic() + _REBALANCE_SECONDS
        while self._commits.has_refused and time.monotonic() < ends:
            self._consumer.poll(_POLL_SECONDS)  # the member joins again; a record is not handled any more
            self._commits.commit_refused()
        self._commits.give_up()

    # Records

    def _poll(self) -> None:
        full = [runs for runs in self._all_runs if runs.wait_for_room()]
        if len(full) == len(self._all_runs):
            self._room.wait(_ROOM_SECONDS)
            self._room.clear()
        self._change_flow()
        # `consume` alone would wait until it has all messages that it may return.
        first = self._consumer.poll(_POLL_SECONDS)
        if first is None:
            return
        self._starts.clear()
        # One call for many messages: each call waits for the interpreter's lock, which handlers hold meanwhile.
        messages = [first, *self._consumer.consume(self._most_at_once - 1, timeout=0)]
        self._receive(self._without_doubtful(messages) if self._starts else messages)

    def _without_doubtful(self, messages: Sequence[Message]) -> list[Message]:
        """Returns the messages without those of partitions that were assigned between the messages of one call. They
        may be older than the assignment, so these partitions are read again from their start.
        """
        starts, kept, doubtful = self._starts, [], set()
        for message in messages:
            name = (message.topic(), message.partition())
            if message.error() is None and name in starts:
                doubtful.add(name)
            else:
                kept.append(message)
        for name in doubtful:
            self._consumer.seek(starts[name])
        return kept

    def _receive(self, messages: Sequence[Message]) -> None:
        received: dict[TopicPartition, list[Received]] = {}
        names = self._names
        last: TopicPartition | None = None
        records: list[Received] = []
        for message in messages:
            if (error := message.error()) is not None:
                self._check(error)
                continue
            topic: Any = message.topic()
            partition: Any = message.partition()
            name = names[topic].get(partition)
            if name is None:
                name = names[topic][partition] = TopicPartition(topic, PartitionIndex(partition))
            key: Any = message.key()
            offset: Any = message.offset()
            size_bytes = len(message) + (0 if key is None else len(key))
            headers: Any = message.headers()
            if headers:
                size_bytes += headers_size_bytes(headers)
            each = Received(offset, key, size_bytes, message)
            if name is not last:
                last, records = name, received.setdefault(name, [])
            records.append(each)
        for name, records in received.items():
            self._commits.epochs.note(name, records)
            again = self._handlers[name.topic].receive(name, records)
            if again is not None:
                _logger.warning("the log of %s was cut: reads it again from offset %d", name, again)
                self._on_gone()
                self._consumer.seek(ConsumerPartition(*name, again))
        for topic in {name.topic for name in received}:
            self._handlers[topic].wake()

    def _check(self, error: KafkaError) -> None:
        if error.fatal() or error.code() in _HOPELESS:
            raise WorkerError(f"the consumer can't go on: {error.str()}")
        _logger.warning("the consumer reports: %s", error.str())

    def _change_flow(self) -> None:
        for runs in self._all_runs:
            flow = runs.flow()
            if flow.pause:
                self._consumer.pause([ConsumerPartition(*each) for each in flow.pause])
            if flow.resume:
                self._consumer.resume([ConsumerPartition(*each) for each in flow.resume])

    # Partitions come and go

    def _assigned(self, consumer: Consumer, partitions: list[ConsumerPartition]) -> None:
        self._commits.give_up([name_of(each) for each in partitions])
        if self._is_leaving:
            # An assignment that came while the member left. A consumer that closes answers no question about offsets.
            self._take(consumer, partitions)
            return
        starts = []
        ends = _Ends(self._consumer, len(partitions))
        for committed in self._committed_offsets(partitions):
            name = name_of(committed)
            position = Offset(committed.offset) if committed.offset >= 0 else None
            text = metadata_of(committed)
            finished = decode_note(position or Offset(0), text).finished
            if finished:
                # Without the end the ranges may be those of another log: the records are handled again.
                end = ends.of(committed)
                finished = () if end is None else decode_note(position or Offset(0), text, end).finished
            begins = position is None and self._reset == OFFSET_END
            if begins:
                position = ends.of(committed)
            self._commits.epochs.begin(name, position, committed.leader_epoch)
            runs = self._handlers[name.topic]
            with runs.lock:
                runs.delivery.assign(name, position, finished)
                if begins:
                    # Without a commit, the next owner would begin at another end, and records between would be lost.
                    runs.delivery.commit_failed([name])
            starts.append(ConsumerPartition(*name, OFFSET_INVALID if position is None else position))
            restart = ConsumerPartition(*name, self._reset if position is None else position)
            self._starts[name.topic, int(name.partition)] = restart
        _logger.info("got %s", ", ".join(f"{each.topic}-{each.partition}" for each in starts) or "no partition")
        self._take(consumer, starts)
        if starts:
            consumer.resume(starts)  # librdkafka remembers that a partition was paused when it went away

    def _take(self, consumer: Consumer, starts: list[ConsumerPartition]) -> None:
        if self._is_cooperative:
            consumer.incremental_assign(starts)
        else:
            consumer.assign(starts)

    def _committed_offsets(self, partitions: list[ConsumerPartition]) -> list[ConsumerPartition]:
        ends = time.monotonic() + _ANSWER_SECONDS
        while partitions:
            try:
                found = self._consumer.committed(partitions, timeout=max(0.1, ends - time.monotonic()))
                problems = [each.error for each in found if each.error is not None]
                if not problems:
                    return found
                problem = problems[0]
            except KafkaException as error:
                problem = error.args[0]
            if problem.code() not in _OF_COORDINATOR or time.monotonic() > ends:
                raise WorkerError(f"the committed offsets can't be read: {problem.str()}")
            time.sleep(_POLL_SECONDS)
        return []

    def _revoked(self, _consumer: Consumer, partitions: list[ConsumerPartition]) -> None:
        names = [name_of(each) for each in partitions]
        _logger.info("gives back %s", ", ".join(map(str, names)) or "no partition")
        self._give_back(names)
        self._commits.give_up(names)

    def _give_back(self, names: Sequence[TopicPartition]) -> None:
        """Waits for what runs, commits, and drops the partitions."""
        for runs in self._all_runs:
            with runs.lock:
                runs.delivery.revoke(names)
        ends = time.monotonic() + self._drain_seconds
        while not all(self._is_drained(runs, names) for runs in self._all_runs):
            if time.monotonic() > ends:
                _logger.warning("handlers still run after %g seconds; their records run again", self._drain_seconds)
                break
            self._on_turn()
            self._commit_in_time()  # this may take long, and partitions that stay go on
            time.sleep(0.005)
        commits = self._commits.last_of(names)
        self._drop(names)
        self._commits.commit_now(commits)

    def _is_drained(self, runs: HandlerRuns, names: Sequence[TopicPartition]) -> bool:
        with runs.lock:
            return runs.delivery.is_drained(names)

    def _lost(self, _consumer: Consumer, partitions: list[ConsumerPartition]) -> None:
        names = [name_of(each) for each in partitions]
        _logger.warning("lost %s; other members handle what was not committed", ", ".join(map(str, names)))
        self._drop(names)
        self._commits.give_up(names)

    def _drop(self, names: Sequence[TopicPartition]) -> None:
        for runs in self._all_runs:
            with runs.lock:
                runs.delivery.drop(names)
        self._on_gone()


class _Ends:
    """The ends of the partitions of one assignment. Those without a leader do not hold up the others for long."""

    def __init__(self, consumer: Consumer, partitions: int) -> None:
        self._consumer = consumer
        self._left = partitions
        self._until: float | None = None

    def of(self, partition: ConsumerPartition) -> Offset | None:
        """Returns the end of a partition; None if it has no leader for now. Each partition has a share of the time."""
        now = time.monotonic()
        self._until = self._until or now + _END_SECONDS
        left_seconds = self._until - now
        try:
            if left_seconds <= 0:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            timeout = min(left_seconds, max(_LEAST_END_SECONDS, left_seconds / self._left))
            _, end = self._consumer.get_watermark_offsets(partition, timeout=timeout)
        except KafkaException as error:
            where = f"{partition.topic}-{partition.partition}"
            _logger.warning("the end of %s can't be read: %s", where, error.args[0].str())
            return None
        finally:
            self._left -= 1
        return Offset(end)


def is_cooperative(settings: Mapping[str, Any]) -> bool:
    """Returns whether the group moves partitions one by one, which decides how the consumer is told."""
    if settings.get("group.protocol") == "consumer":
        return True
    return all("cooperative" in each for each in str(settings["partition.assignment.strategy"]).split(","))
