"""Commits a query's progress to its group, compares both at a restart, and checks that the query may continue.

The checkpoint is authoritative and the group follows it. Spark calls `latestOffset(start)` with the end of the last
finished micro-batch as `start`, also after the last batch of an AvailableNow query and after a restart. So the commit
happens there, before `latestOffset` returns. The source's own `commit` would come one batch late and never for the last
batch. Spark does not tell the source that the last batch of a stopped query was finished. The source reads that from
the checkpoint, whose location the driver knows.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from klamm.client.committed_offsets import Commit
from klamm.client.errors import GaveUp
from klamm.client.spark_metadata import application_in, commit_metadata
from klamm.errors import KlammError
from klamm.protocol.types import Offset, TopicPartition
from klamm.spark.source.errors import GroupConflict, OptionError
from klamm.spark.source.group.commit_patience import FULL_PATIENCE_S, CommitPatience

__all__ = ["CommittedOffsets", "GroupCommits", "GroupPolicy", "Owner"]

_logger = logging.getLogger(__name__)

# Offsets of a group that has no members expire from their commit on, after `offsets.retention.minutes` (a week): a
# query that only waits for data would lose its group.
_RENEWAL_S: Final = 3_600.0
# The limit for a report, since a topic may have thousands of partitions.
_PARTITIONS_NAMED = 10


class CommittedOffsets(Protocol):
    """Writes and reads commits; implemented by `klamm.client.committed_offsets.GroupOffsets`."""

    def commit(self, offsets: Mapping[TopicPartition, Offset], metadata: str = "") -> None:
        """Commits the offsets, or raises."""

    def commits(self, topic_partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Commit]:
        """Returns the commits of these partitions, or raises."""


class Owner(Protocol):
    """A query's membership of its group; implemented by `klamm.spark.source.group.group_member.QueryMember`."""

    def ensure_owner(self) -> None:
        """Raises unless the query owns the group now."""

    def reads(self, partitions: Collection[TopicPartition]) -> None:
        """Notes the partitions that the query reads."""


@dataclass(frozen=True, slots=True)
class GroupPolicy:
    """The options that concern the group."""

    group_id: str
    application_id: str
    reset: Literal["earliest", "latest", "fail"] = "earliest"
    fail_on_conflict: bool = False


class GroupCommits:
    """The commits of one run of a query."""

    def __init__(
        self,
        group: CommittedOffsets | None,
        policy: GroupPolicy | None = None,
        owner: Owner | None = None,
        clock: Callable[[], float] = time.monotonic,
        briefly: Callable[[float], AbstractContextManager[CommittedOffsets]] | None = None,
    ) -> None:
        """Takes the group, or None for a query without a group, which commits nothing.

        `group` waits up to `FULL_PATIENCE_S` for its coordinator; `briefly` returns a client that waits up to the given
        seconds.
        """
        self._group = group
        self._policy = policy or GroupPolicy("", "")
        self._owner = owner
        self._clock = clock
        self._briefly = briefly
        self._patience = CommitPatience()
        self._pending: Mapping[TopicPartition, Offset] | None = None
        self._committed_at = float("-inf")
        self._committed: Mapping[TopicPartition, Offset] | None = None
        self._planned: Mapping[TopicPartition, Offset] | None = None
        self._is_compared = False
        self._left_out: frozenset[TopicPartition] = frozenset()
        self.uncommitted: frozenset[TopicPartition] = frozenset()
        """The partitions without a commit of the group at the last call of `start`."""

    @property
    def resets_to_latest(self) -> bool:
        """Whether partitions without a commit of the group are read from their end."""
        return self._policy.reset == "latest"

    def may_plan(self, partitions: Collection[TopicPartition]) -> None:
        """Raises `QueryFenced` or `GaveUp` if the query must own its group and does not. Notes the partitions that it
        reads."""
        if self._owner is not None:
            self._owner.ensure_owner()
            if partitions:
                self._owner.reads(partitions)

    def start(self, latest: Mapping[TopicPartition, Offset]) -> dict[TopicPartition, Offset]:
        """Returns the group's committed offset of each of these partitions that has one.

        Raises `OptionError` for a partition without a commit if `klamm.group.reset` is `fail`, and what the request to
        the coordinator raises.
        """
        assert self._group is not None, "the options have been checked"
        found = {key: commit.offset for key, commit in self._group.commits(latest).items()}
        self.uncommitted = frozenset(latest.keys() - found.keys())
        if self.uncommitted and self._policy.reset == "fail":
            raise OptionError(
                f"startingOffsets=committed: group {self._policy.group_id!r} has committed nothing for "
                f"{_listed(map(str, sorted(self.uncommitted)))}, and klamm.group.reset is fail. With earliest or "
                "latest the query would start there"
            )
        return found

    def leave_out(self, gone: frozenset[TopicPartition]) -> None:
        """Notes the partitions that do not exist: a coordinator refuses their offsets, and the request is repeated."""
        if self._left_out - gone:
            self._committed = None
        self._left_out = gone

    def starts_fresh(self) -> None:
        """Skips the comparison with the group, since there is no checkpoint."""
        self._is_compared = True

    def resumes(
        self, finished: Mapping[TopicPartition, Offset], planned: Mapping[TopicPartition, Offset] | None = None
    ) -> None:
        """Compares the checkpoint from which the query continues with the group, once.

        `planned` is the end of a micro-batch that may have been finished before. A Spark query's commit that is behind
        the checkpoint is no conflict, since the group follows. On a conflict, raises `GroupConflict` if
        `klamm.group.conflict` is `fail`, else logs a warning.
        """
        if self._is_compared or self._group is None:
            return
        try:
            commits = self._group.commits(finished)
        except GaveUp as error:
            if self._policy.fail_on_conflict:
                raise
            self._patience.failed(self._clock())
            _logger.warning("the checkpoint could not be compared with the group: %s", error)
            return
        finally:
            self._is_compared = True
        differences = [
            f"{key}: checkpoint {finished[key]}, group {commit.offset}" + _by(commit)
            for key, commit in sorted(commits.items())
            if commit.offset not in (finished[key], (planned or {}).get(key))
            and not (commit.offset < finished[key] and application_in(commit.metadata) is not None)
        ]
        if differences:
            self._report(differences)

    def finished_up_to(self, offsets: Mapping[TopicPartition, Offset], *, is_last: bool = False) -> None:
        """Commits these ends of finished micro-batches, if they are new or were last committed an hour ago.

        `is_last` marks the end of an AvailableNow query. Logs a warning if the coordinator is unreachable for too long;
        later calls retry, with a back-off. Raises `RequestRefused` for a group with other members, and `QueryFenced` if
        another query owns the group now.
        """
        if self._group is None:
            return
        now = self._clock()
        if offsets == self._committed and now < self._committed_at + _RENEWAL_S:
            return
        patience_s = self._patience.left_s(now, is_last=is_last)
        self._pending = offsets
        if patience_s == 0:
            return
        try:
            with self._connection(patience_s) as group:
                self._commit(group, offsets)
        except GaveUp as error:
            self._patience.failed(self._clock())
            _logger.warning("the group's offsets lag behind the checkpoint: %s", error)
        except KlammError:
            self._pending = None  # not to be retried
            raise
        else:
            self._patience.succeeded()
            self._pending = None
            self._committed, self._committed_at = dict(offsets), now

    def _connection(self, patience_s: float) -> AbstractContextManager[CommittedOffsets]:
        assert self._group is not None
        if self._briefly is None or patience_s >= FULL_PATIENCE_S:
            return nullcontext(self._group)
        return self._briefly(patience_s)

    def planned_up_to(self, offsets: Mapping[TopicPartition, Offset]) -> None:
        """Notes the end of a micro-batch that is about to run."""
        self._planned = dict(offsets)

    def stopped(
        self,
        group: CommittedOffsets,
        is_finished: Callable[[Mapping[TopicPartition, Offset]], bool],
    ) -> None:
        """Commits the last micro-batch of a stopped query through `group` if it is finished, else a pending commit, if
        any.

        Raises what the commit raises.
        """
        last = self._pending
        if self._planned is not None and self._planned not in (self._committed, last) and is_finished(self._planned):
            last = self._planned
        if last is not None:
            self._commit(group, last)

    def _commit(self, group: CommittedOffsets, offsets: Mapping[TopicPartition, Offset]) -> None:
        existing = {key: offset for key, offset in offsets.items() if key not in self._left_out}
        group.commit(existing, commit_metadata(self._policy.application_id))

    def _report(self, differences: list[str]) -> None:
        text = (
            f"the checkpoint and group {self._policy.group_id!r} disagree on how far the query has come: "
            f"{_listed(differences)}"
        )
        if self._policy.fail_on_conflict:
            raise GroupConflict(
                f"{text}. klamm.group.conflict=checkpoint would continue from the checkpoint; a fresh checkpoint with "
                "startingOffsets=committed starts where the group stands"
            )
        _logger.warning("%s. The query continues from its checkpoint, and the group will follow", text)


def _by(commit: Commit) -> str:
    application = application_in(commit.metadata)
    return "" if application is None else f" (by Spark application {application})"


def _listed(texts: Iterable[str]) -> str:
    given = list(texts)
    more = len(given) - _PARTITIONS_NAMED
    return "; ".join(given[:_PARTITIONS_NAMED]) + (f"; and {more} more" if more > 0 else "")
