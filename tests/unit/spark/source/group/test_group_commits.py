"""Tests what a query and its group exchange, with a group that is a dictionary."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

import pytest

from klamm.client.committed_offsets import Commit
from klamm.client.errors import GaveUp
from klamm.client.spark_metadata import commit_metadata
from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.source.errors import GroupConflict, OptionError, QueryFenced
from klamm.spark.source.group.group_commits import CommittedOffsets, GroupCommits, GroupPolicy

OURS = commit_metadata("app-1")


def tp(partition: int) -> TopicPartition:
    return TopicPartition("t", PartitionIndex(partition))


def offsets(*values: int) -> dict[TopicPartition, Offset]:
    return {tp(index): Offset(value) for index, value in enumerate(values)}


class Group:
    """A group that keeps committed offsets, as a coordinator does."""

    def __init__(self, *values: int, metadata: str = "") -> None:
        self.held = {key: Commit(offset, metadata) for key, offset in offsets(*values).items()}
        self.is_away = False
        self.refuses = False
        self.asked = 0

    def commit(self, offsets: Mapping[TopicPartition, Offset], metadata: str = "") -> None:
        if self.is_away:
            raise GaveUp("no coordinator")
        if self.refuses:
            raise QueryFenced("another query owns the group")
        self.held |= {key: Commit(offset, metadata) for key, offset in offsets.items()}

    def commits(self, topic_partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Commit]:
        self.asked += 1
        if self.is_away:
            raise GaveUp("no coordinator")
        return {key: self.held[key] for key in topic_partitions if key in self.held}

    @property
    def offsets(self) -> dict[TopicPartition, Offset]:
        return {key: commit.offset for key, commit in self.held.items()}


def commits(group: Group, *, fail: bool = True) -> GroupCommits:
    return GroupCommits(group, GroupPolicy("g", "app-2", fail_on_conflict=fail))


def test_commits_name_the_application() -> None:
    """The metadata of each commit names the Spark application, so that `klamm group describe` can show it."""
    group = Group()

    commits(group).finished_up_to(offsets(5))

    assert group.held == {tp(0): Commit(Offset(5), "spark application app-2;")}


@pytest.mark.parametrize(
    ("group", "why"),
    [
        (Group(), "nothing was committed"),
        (Group(10, 20), "they agree"),
        (Group(10), "partitions without a commit say nothing"),
        (Group(4, 3, metadata=OURS), "a query was stopped before it could tell"),
        (Group(10, 20, 30), "the group has partitions more"),
    ],
)
def test_where_checkpoint_and_group_agree(group: Group, why: str) -> None:
    """A group that is behind its checkpoint by its own commits, or has no commit, is no conflict."""
    commits(group).resumes(offsets(10, 20))


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (Group(15, 20), "t-0: checkpoint 10, group 15"),
        (Group(15, 20, metadata=OURS), r"t-0: checkpoint 10, group 15 \(by Spark application app-1\)"),
        (Group(10, 3), "t-1: checkpoint 20, group 3"),
    ],
)
def test_where_they_do_not(group: Group, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """A group that is ahead, or that another client has moved, is an error or a warning, as the options say."""
    with pytest.raises(GroupConflict, match=text):
        commits(group).resumes(offsets(10, 20))

    with caplog.at_level(logging.WARNING):
        commits(group, fail=False).resumes(offsets(10, 20))
    assert "The query continues from its checkpoint" in caplog.text


def test_a_batch_that_is_done_again_may_have_been_committed() -> None:
    """A group at the end of the repeated micro-batch is no conflict: the query crashed after the commit to the
    group."""
    commits(Group(15, 20, metadata=OURS)).resumes(offsets(10, 20), offsets(15, 20))


def test_they_are_compared_once() -> None:
    """Checkpoint and group are compared once, not with every plan, and never for a query that starts fresh."""
    group = Group(10)
    resumed, fresh = commits(group), commits(group)
    resumed.resumes(offsets(10))
    resumed.resumes(offsets(20))
    fresh.starts_fresh()
    fresh.resumes(offsets(30))

    assert group.asked == 1


def test_a_coordinator_that_is_away_fails_only_who_wants_certainty(caplog: pytest.LogCaptureFixture) -> None:
    """With klamm.group.conflict=checkpoint, an unavailable coordinator only causes a warning; otherwise the query
    fails."""
    group = Group(10)
    group.is_away = True

    with pytest.raises(GaveUp):
        commits(group).resumes(offsets(20))
    commits(group, fail=False).resumes(offsets(20))

    assert "could not be compared" in caplog.text


class Owner:
    """A membership that ends when the test says so."""

    def __init__(self) -> None:
        self.is_fenced = False
        self.partitions: Collection[TopicPartition] = ()

    def ensure_owner(self) -> None:
        if self.is_fenced:
            raise QueryFenced("another query owns the group")

    def reads(self, partitions: Collection[TopicPartition]) -> None:
        self.partitions = partitions


class Away:
    """A group whose coordinator is away until the test brings it back; each failed commit uses up the whole
    patience."""

    def __init__(self, owner: Owner | None = None) -> None:
        self.group = Group()
        self.group.is_away = True
        self.now = 1_000.0
        self.waited = 0.0
        self.commits = GroupCommits(
            Connection(self, 10.0),
            GroupPolicy("g", "app-2"),
            owner,
            clock=lambda: self.now,
            briefly=self.briefly,
        )

    def briefly(self, patience_s: float) -> AbstractContextManager[CommittedOffsets]:
        return nullcontext(Connection(self, patience_s))

    def run(self, seconds: float, *, batch_s: float = 0.04) -> None:
        """Runs micro-batches one after the other for the given time."""
        until, number = self.now + seconds, 0
        while self.now < until:
            number += 1
            self.commits.finished_up_to(offsets(number))
            assert self.group.offsets in ({}, offsets(number)), "it runs ahead, or is behind for no reason"
            self.now += batch_s


class Connection:
    """One connection to the group."""

    def __init__(self, away: Away, patience_s: float) -> None:
        self.away = away
        self.patience_s = patience_s

    def commit(self, offsets: Mapping[TopicPartition, Offset], metadata: str = "") -> None:
        if self.away.group.is_away:
            self.away.now += self.patience_s
            self.away.waited += self.patience_s
        self.away.group.commit(offsets, metadata)

    def commits(self, topic_partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, Commit]:
        return self.away.group.commits(topic_partitions)


def test_a_coordinator_that_is_away_costs_a_query_a_tenth_of_its_time(caplog: pytest.LogCaptureFixture) -> None:
    """An unavailable coordinator costs ten seconds and then at most a tenth of the query's time."""
    away = Away()

    away.run(3_600)

    assert away.waited < 10 + 360
    assert len(caplog.records) < 75


def test_the_group_follows_soon_when_the_coordinator_is_back() -> None:
    """The group gets the offsets within a minute after the coordinator returns, and never an offset that is not
    finished."""
    away = Away()
    away.run(3_600)
    away.group.is_away = False
    back_at = away.now

    while away.group.offsets != offsets(7):
        away.now += 0.04
        away.commits.finished_up_to(offsets(7))

    assert away.now - back_at < 61
    away.run(1)  # `run` asserts that each micro-batch is committed at once again


def test_the_end_of_a_query_is_worth_full_patience() -> None:
    """The commit for the last micro-batch of AvailableNow has full patience, because the query ends after it."""
    away = Away()
    away.run(60)
    away.waited = 0.0

    away.commits.finished_up_to(offsets(9), is_last=True)

    assert away.waited == 10.0


def test_a_stopped_query_commits_what_the_coordinator_was_not_there_for() -> None:
    """A stopped query commits the finished offsets that the coordinator missed, without the micro-batch in progress."""
    away = Away()
    away.run(30)
    away.commits.finished_up_to(offsets(8_000))
    away.commits.planned_up_to(offsets(9_000))
    away.group.is_away = False

    away.commits.stopped(away.group, lambda end: False)

    assert away.group.offsets == offsets(8_000)


def test_a_refused_commit_is_not_tried_again_at_the_end() -> None:
    """A refused commit is not repeated when the query stops, because the refusal has already stopped the query."""
    refusing = Group()
    refusing.refuses = True
    query = commits(refusing)
    with pytest.raises(QueryFenced):
        query.finished_up_to(offsets(5))

    query.stopped(Group(), lambda end: pytest.fail("nothing was planned"))


def test_a_fenced_query_stops_at_once_though_its_coordinator_was_away() -> None:
    """A fenced query stops at once: by its membership while commits pause, and by the refused commit otherwise."""
    owner = Owner()
    away = Away(owner)
    away.run(30)
    owner.is_fenced = True
    with pytest.raises(QueryFenced):
        away.commits.may_plan(())

    away.group.is_away, away.group.refuses = False, True
    away.now += 61
    with pytest.raises(QueryFenced):
        away.commits.finished_up_to(offsets(5))


def test_who_could_not_compare_does_not_wait_again_for_the_commit() -> None:
    """After a failed comparison, the commit that follows does not wait for the same coordinator."""
    away = Away()

    away.commits.resumes(offsets(5))
    away.commits.finished_up_to(offsets(5))

    assert away.waited == 0.0


def test_a_query_that_waits_for_long_commits_again() -> None:
    """A query that is idle for an hour commits again, because offsets of a group without members expire after a
    week."""
    group, now = Group(), [0.0]
    waiting = GroupCommits(group, GroupPolicy("g", "app-2"), clock=lambda: now[0])
    waiting.finished_up_to(offsets(5))
    group.held.clear()

    now[0] += 3_599
    waiting.finished_up_to(offsets(5))
    assert group.offsets == {}
    now[0] += 2
    waiting.finished_up_to(offsets(5))
    assert group.offsets == offsets(5)


def test_a_report_names_some_of_many_partitions() -> None:
    """A conflict report names some partitions and the number of the others; a topic may have thousands."""
    with pytest.raises(GroupConflict, match=r"t-9: checkpoint 0, group 7; and 90 more"):
        commits(Group(*[7] * 100)).resumes(offsets(*[0] * 100))


def test_a_start_that_is_to_fail_without_a_commit() -> None:
    """`klamm.group.reset=fail` names the partitions that have no committed offset."""
    policy = GroupPolicy("g", "app", reset="fail")

    assert GroupCommits(Group(1, 2), policy).start(offsets(9, 9)) == offsets(1, 2)
    with pytest.raises(OptionError, match="group 'g' has committed nothing for t-1"):
        GroupCommits(Group(1), policy).start(offsets(9, 9))


def test_a_fenced_query_may_not_plan() -> None:
    """A query reports the partitions that it reads while it owns the group; a fenced query may not plan."""
    owner = Owner()
    member = GroupCommits(Group(), GroupPolicy("g", "app"), owner)
    member.may_plan([tp(0)])
    assert owner.partitions == [tp(0)]
    owner.is_fenced = True

    with pytest.raises(QueryFenced):
        member.may_plan(())


@pytest.mark.parametrize(("finished", "expected"), [(True, offsets(20)), (False, offsets(10))])
def test_a_stopped_query_commits_what_the_checkpoint_calls_finished(
    finished: bool, expected: dict[TopicPartition, Offset]
) -> None:
    """A stopped query commits its last micro-batch only if the checkpoint calls that micro-batch finished."""
    group = Group()
    query = commits(group)
    query.finished_up_to(offsets(10))
    query.planned_up_to(offsets(20))

    query.stopped(group, lambda end: finished)

    assert group.offsets == expected


def test_a_stopped_query_that_has_told_all_does_not_look() -> None:
    """A stopped query that has committed everything does not read the checkpoint."""
    group = Group()
    query = commits(group)
    query.planned_up_to(offsets(10))
    query.finished_up_to(offsets(10))

    query.stopped(group, lambda end: pytest.fail("nothing is left to tell"))
