"""Tests of the offsets of consumer groups: commits, fetches, deletion and expiration (I16)."""

from __future__ import annotations

from typing import cast

from tests.unit.core.group.consumer.consumer_driver import EVENTS, GROUP, ConsumerDriver, owned, slow
from tests.unit.core.group.painted_topics import PaintedTopics, topic_id
from tests.unit.core.group.removal.test_removal_rules import delete_groups, delete_offsets

from klamm.core.group.events import GroupDeleted, GroupType
from klamm.core.group.shard import GroupShard
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponseGroup
from klamm.protocol.types import PartitionIndex

EVENTS_0 = (EVENTS, 0)
DAY = 24 * 60 * 60 * 1000
CHECK = 600_000


def commit(driver: ConsumerDriver, member_id: str, epoch: int, *, partition: int = 0, version: int = 9) -> object:
    return driver.commit(
        1, member_id=member_id, generation=epoch, partition=partition, topic_id=topic_id(EVENTS), version=version
    )


def fetch_code(driver: ConsumerDriver, member_id: str | None, epoch: int) -> ErrorCode:
    group = OffsetFetchRequestGroup(group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=None)
    ticket = driver.ask(GroupShard.handle_offset_fetch, OffsetFetchRequest(groups=[group]), 9)
    answer = driver.answers[ticket]
    return answer if isinstance(answer, ErrorCode) else ErrorCode(cast(OffsetFetchResponseGroup, answer).error_code)


def test_member_commits_at_its_epoch() -> None:
    """A commit needs a current member and its epoch: a higher epoch or an unknown member is refused."""
    driver = ConsumerDriver()
    driver.enter("a")
    assert commit(driver, "a", 2) is ErrorCode.NONE
    assert commit(driver, "a", 3) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(driver, "ghost", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(driver, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_late_commit_is_taken_for_what_the_member_has_had_since() -> None:
    """A commit with the previous epoch succeeds only for partitions that the member had in that epoch (KIP-1251)."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.paint(PaintedTopics(2, events=8))
    driver.beat("a", 2)
    assert driver.member("a").member_epoch == 3
    assert commit(driver, "a", 2, partition=5) is ErrorCode.NONE
    assert commit(driver, "a", 2, partition=7) is ErrorCode.STALE_MEMBER_EPOCH
    assert commit(driver, "a", 1, partition=5) is ErrorCode.STALE_MEMBER_EPOCH


def test_too_much_metadata_is_told_before_the_epoch_is_held_against_the_partition() -> None:
    """A partition with too much metadata gets its own error code and no epoch check; any other partition with a stale
    epoch fails the whole commit.

    After `OffsetMetadataManager.commitOffset`.
    """
    driver = ConsumerDriver()
    driver.enter("a")
    driver.paint(PaintedTopics(2, events=8))
    driver.beat("a", 2)
    too_much = "x" * (driver.config.offset_metadata_max_bytes + 1)

    def late(*partitions: tuple[int, str]) -> list[ErrorCode] | ErrorCode:
        topic = OffsetCommitRequestTopic(
            name=EVENTS,
            topic_id=topic_id(EVENTS),
            partitions=[
                OffsetCommitRequestPartition(partition_index=index, committed_offset=1, committed_metadata=metadata)
                for index, metadata in partitions
            ],
        )
        request = OffsetCommitRequest(group_id=GROUP, member_id="a", generation_id_or_member_epoch=2, topics=[topic])
        answer = driver.answers[driver.ask(GroupShard.handle_offset_commit, request, 9)]
        if isinstance(answer, ErrorCode):
            return answer
        assert isinstance(answer, OffsetCommitResponse)
        return [ErrorCode(each.error_code) for each in answer.topics[0].partitions]

    assert late((7, too_much), (5, "")) == [ErrorCode.OFFSET_METADATA_TOO_LARGE, ErrorCode.NONE]
    assert late((5, too_much), (7, "")) is ErrorCode.STALE_MEMBER_EPOCH
    assert late((7, too_much)) == [ErrorCode.OFFSET_METADATA_TOO_LARGE]
    assert driver.shard.store.offsets_of(GROUP)[EVENTS].get(PartitionIndex(7)) is None


def test_what_is_being_let_go_may_still_be_committed() -> None:
    """A member may commit for a partition that it has to revoke, until it reports the revocation."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.enter("b")
    driver.beat("a", 2)
    assert commit(driver, "a", 2, partition=4) is ErrorCode.NONE
    driver.beat("a", 2, topic_partitions=owned(events=[0, 1, 2]))
    assert commit(driver, "a", 2, partition=0) is ErrorCode.NONE
    assert commit(driver, "a", 2, partition=4) is ErrorCode.STALE_MEMBER_EPOCH


def test_members_need_a_version_that_knows_them() -> None:
    """A member of a consumer group needs OffsetCommit version 9 or later."""
    driver = ConsumerDriver()
    driver.enter("a")
    assert commit(driver, "a", 2, version=8) is ErrorCode.UNSUPPORTED_VERSION


def test_empty_group_takes_commits_of_anybody_outside() -> None:
    """An empty consumer group accepts commits without a member id, and stays a consumer group."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.go("a")
    assert commit(driver, "", -1) is ErrorCode.NONE
    assert commit(driver, "a", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.shard.classic_groups.store.groups == {}
    assert driver.reload().shard.store == driver.shard.store


def test_fetch_of_a_member_is_checked() -> None:
    """OffsetFetch checks the member id and epoch, unless the request names no member."""
    driver = ConsumerDriver()
    driver.enter("a")
    assert fetch_code(driver, None, -1) is ErrorCode.NONE
    assert fetch_code(driver, "a", 2) is ErrorCode.NONE
    assert fetch_code(driver, "a", 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetch_code(driver, "ghost", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_topics_that_are_not_read_may_be_deleted() -> None:
    """OffsetDelete is allowed for topics that no member subscribes to, also while the group has members."""
    driver = ConsumerDriver()
    driver.enter("a")
    commit(driver, "a", 2)
    driver.commit(1, member_id="a", generation=2, topic="other")
    assert delete_offsets(driver, EVENTS) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete_offsets(driver, "other") is ErrorCode.NONE
    driver.go("a")
    assert delete_offsets(driver, EVENTS) is ErrorCode.NONE


def test_group_is_deleted_with_all_there_is_of_it() -> None:
    """DeleteGroups deletes an empty group, and appends a tombstone for each of its records."""
    driver = ConsumerDriver()
    driver.enter("a", names=["audit"], regex="ev.*")
    driver.run_tasks()
    driver.settle()
    driver.commit(1, member_id="a", generation=3, topic="audit")
    assert delete_groups(driver, GROUP) == {GROUP: ErrorCode.NON_EMPTY_GROUP}
    driver.go("a")
    assert delete_groups(driver, GROUP) == {GROUP: ErrorCode.NONE}
    assert driver.shard.consumer_groups.store.groups == {}
    assert driver.shard.store == driver.reload().shard.store
    (deleted,) = driver.happened(GroupDeleted)
    assert (deleted.group_type, deleted.epoch) == (GroupType.CONSUMER, 4)
    last = {repr(written.record.key): written.record.value for written in driver.log}
    assert all(value is None for value in last.values())
    assert driver.enter("a").epoch == 2


def test_offsets_expire_from_their_commit_on() -> None:
    """Offsets of topics without a subscription expire, and an empty group is deleted when its last offset expires."""
    driver = ConsumerDriver(settings=slow(session_timeout_ms=30 * DAY, assignment_interval_ms=0))
    driver.enter("a")
    commit(driver, "a", 2)
    driver.commit(1, member_id="a", generation=2, topic="other")
    driver.advance(7 * DAY + CHECK)
    assert driver.fetch(EVENTS_0, ("other", 0)) == {EVENTS_0: 1, ("other", 0): -1}
    driver.go("a")
    driver.advance(CHECK)
    assert driver.shard.consumer_groups.store.groups == {}
    assert driver.reload().shard.store == driver.shard.store


def test_empty_group_without_offsets_goes() -> None:
    """An empty group without offsets is deleted by the next expiration check."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.go("a")
    driver.advance(CHECK)
    assert driver.shard.consumer_groups.store.groups == {}
