"""The commits of one member: at intervals, when partitions go away, and again if a rebalance has refused them.

A last commit that was refused is kept. It is made again when the rebalance is over, or when the group takes the
partition away, which is the last moment at which the coordinator accepts it. If the partition is lost or assigned
again, the commit is given up: another member may have committed meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import TopicPartition as ConsumerPartition

from klamm.core.delivery.record_delivery import Commit
from klamm.protocol.types import PartitionIndex, TopicPartition
from klamm.worker.handler_runs import HandlerRuns
from klamm.worker.record_epochs import RecordEpochs

__all__ = ["MemberCommits", "name_of"]

_logger = logging.getLogger(__name__)

_LEAST_NOTE: Final = 64
_OF_REBALANCE: Final = (
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.STALE_MEMBER_EPOCH,
)


class MemberCommits:
    """One thread uses it. `consumer` is set before the first commit, because the consumer gets `take_answer`."""

    consumer: Consumer

    def __init__(self, all_runs: Sequence[HandlerRuns]) -> None:
        self._all_runs = all_runs
        self.epochs = RecordEpochs()
        self._unanswered = 0
        """Commits whose answer did not come yet."""
        self._refused: dict[TopicPartition, Commit] = {}
        """Last commits that a rebalance has refused."""

    # At intervals

    def commit_changes(self) -> None:
        """Commits what has changed, without waiting for the answer."""
        commits = [commit for runs in self._all_runs for commit in runs.commits()]
        if not commits:
            return
        try:
            self.consumer.commit(offsets=[self._to_partition(each) for each in commits], asynchronous=True)
            self._unanswered += 1
        except KafkaException as error:
            _logger.warning("a commit can't be sent: %s", error)
            self._commit_again([each.partition for each in commits])

    def take_answer(self, error: KafkaError | None, partitions: list[ConsumerPartition]) -> None:
        """Takes the answer to a commit. What has failed is part of the next commit."""
        self._unanswered = max(0, self._unanswered - 1)
        failed = [(each, each.error or error) for each in partitions if each.error is not None or error is not None]
        causes = [cause for _, cause in failed if cause is not None]
        if not causes:
            return
        if any(cause.code() == KafkaError.OFFSET_METADATA_TOO_LARGE for cause in causes):
            self._shorten_notes()
        worst = next((cause for cause in causes if cause.code() not in _OF_REBALANCE), None)
        level = logging.INFO if worst is None else logging.WARNING
        _logger.log(level, "a commit failed and is made again: %s", (worst or causes[0]).str())
        self._commit_again([name_of(each) for each, _ in failed])

    def _shorten_notes(self) -> None:
        for runs in self._all_runs:
            with runs.lock:
                characters = runs.delivery.window.note_characters // 2
                runs.delivery.limit_notes(characters if characters > _LEAST_NOTE else 0)

    def _commit_again(self, names: Iterable[TopicPartition]) -> None:
        names = list(names)
        for runs in self._all_runs:
            with runs.lock:
                runs.delivery.commit_failed(names)

    # When partitions go away

    def last_of(self, names: Sequence[TopicPartition]) -> list[Commit]:
        """Returns the last commits of partitions that go away, and those that were refused before."""
        if self._unanswered:
            self._commit_again(names)  # a commit without an answer may yet be refused
        commits = {name: self._refused[name] for name in names if name in self._refused}
        commits.update((commit.partition, commit) for runs in self._all_runs for commit in runs.commits(names))
        return list(commits.values())

    def commit_now(self, commits: Sequence[Commit]) -> None:
        """Commits and waits for the answer. Keeps the commits that were refused because of a rebalance."""
        for each in commits:
            self._refused.pop(each.partition, None)
        if too_long := self._try(commits):
            # The partitions go away, so there is no next commit: better the position alone than nothing.
            _logger.warning("the broker refuses the text of %d commits, which are made without it", len(too_long))
            self._shorten_notes()
            self._try([each._replace(metadata="") for each in too_long])

    def _try(self, commits: Sequence[Commit]) -> list[Commit]:
        """Commits and waits for the answer. Returns the commits whose text is too long."""
        if not commits:
            return []
        failed: dict[TopicPartition, KafkaError] = {}
        try:
            answers = self.consumer.commit(offsets=[self._to_partition(each) for each in commits], asynchronous=False)
            failed = {name_of(each): each.error for each in answers or () if each.error is not None}
        except KafkaException as error:
            failed = dict.fromkeys([each.partition for each in commits], error.args[0])
        too_long = []
        for each in commits:
            if (cause := failed.get(each.partition)) is None:
                continue
            if cause.code() in _OF_REBALANCE:
                self._refused[each.partition] = each
            elif cause.code() == KafkaError.OFFSET_METADATA_TOO_LARGE and each.metadata:
                too_long.append(each)
            else:
                _logger.warning("the last commit of %s failed: %s; its records run again", each.partition, cause.str())
        return too_long

    def _to_partition(self, commit: Commit) -> ConsumerPartition:
        epoch = self.epochs.before(commit.partition, commit.offset)
        return ConsumerPartition(*commit.partition, commit.offset, commit.metadata, -1 if epoch is None else epoch)

    # Commits that were refused

    @property
    def has_refused(self) -> bool:
        """Whether a refused last commit still has to be repeated."""
        return bool(self._refused)

    def commit_refused(self) -> None:
        """Repeats the commits that were refused because of a rebalance."""
        self.commit_now(list(self._refused.values()))

    def give_up(self, names: Iterable[TopicPartition] | None = None) -> None:
        """Forgets the refused commits of partitions, by default of all, with a warning."""
        found = [name for name in (list(self._refused) if names is None else names) if name in self._refused]
        for name in found:
            del self._refused[name]
        if found:
            _logger.warning("the last commit of %d partitions was refused; what it contained runs again", len(found))


def name_of(partition: ConsumerPartition) -> TopicPartition:
    """Returns the name of a consumer's partition."""
    return TopicPartition(partition.topic, PartitionIndex(partition.partition))
