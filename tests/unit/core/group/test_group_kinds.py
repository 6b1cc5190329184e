"""Tests of the table of group kinds: a third kind is available to all requests once it is in the table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, cast

import pytest
from tests.unit.core.group.shard_driver import NO_PRODUCER, ShardDriver, Written
from tests.unit.core.group.third_kind import SESSION, THIRD_KIND, ThirdShard, group_record, member_record

from klamm.core.coordinator.cluster_topics import NO_TOPICS
from klamm.core.coordinator.shard_contract import CoordinatorRecord, Result, TimerKey
from klamm.core.group import group_kinds
from klamm.core.group.events import GroupDeleted
from klamm.core.group.group_kind import shard_of
from klamm.core.group.group_kinds import GROUP_KINDS, empty_store
from klamm.core.group.shard import GroupShard
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_describe_response import ConsumerGroupDescribeResponse
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.delete_groups_response import DeleteGroupsResponse
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribeGroupsResponse
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListGroupsResponse
from klamm.protocol.schema.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from klamm.protocol.schema.offset_commit_response import OffsetCommitResponse
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from klamm.protocol.schema.offset_fetch_response import OffsetFetchResponseGroup
from klamm.protocol.schema.sync_group_request import SyncGroupRequest
from klamm.protocol.schema.txn_offset_commit_request import TxnOffsetCommitRequest
from klamm.runtime import record_serde
from klamm.runtime.record_serde import GroupRecordSerde

GROUP = "jobs"
RECORDS = (group_record(GROUP, 3), member_record(GROUP, "a"))


class ThirdKindDriver(ShardDriver):
    """A driver of a coordinator with three kinds of groups."""

    kinds: ClassVar = (*GROUP_KINDS, THIRD_KIND)

    @property
    def third(self) -> ThirdShard:
        """Returns the shard part of the third kind."""
        return shard_of(ThirdShard, self.shard.groups.shards)

    def answer_to(self, handle: Callable[..., Result], request: Message, version: int = 5) -> Message | ErrorCode:
        """Sends a request, and returns its answer, or an error code if it is refused."""
        return self.answers[self.ask(handle, request, version)]


@pytest.fixture
def driver() -> ThirdKindDriver:
    """Returns a coordinator that has loaded a group of the third kind with one member, and has a classic group."""
    loaded = ThirdKindDriver(log=[Written(NO_PRODUCER[0], record) for record in RECORDS])
    loaded.stable_group()
    return loaded


def write(driver: ThirdKindDriver, record: CoordinatorRecord) -> None:
    """Appends a record of the third kind."""
    driver._write(Written(NO_PRODUCER[0], record))


def commit(member_id: str) -> OffsetCommitRequest:
    """Returns a commit request for one partition."""
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topic = OffsetCommitRequestTopic(name="events", partitions=[partition])
    return OffsetCommitRequest(
        group_id=GROUP, generation_id_or_member_epoch=3, member_id=member_id, retention_time_ms=-1, topics=[topic]
    )


def listed(driver: ThirdKindDriver, **filters: list[str]) -> list[tuple[str, str, str, str]]:
    """Returns the groups in the answer to ListGroups."""
    answer = cast(ListGroupsResponse, driver.answer_to(GroupShard.handle_list_groups, ListGroupsRequest(**filters)))
    return [(each.group_id, each.group_type, each.group_state, each.protocol_type) for each in answer.groups]


def test_each_kind_has_records_timers_tasks_and_a_type_of_its_own() -> None:
    """Each record type, each timer and each background task belongs to exactly one kind."""
    keys = [key for kind in GROUP_KINDS for key in kind.store.keys]
    timers = [timer for kind in GROUP_KINDS for timer in kind.timers]
    assert len(set(keys)) == len(keys)
    tasks = [task for kind in GROUP_KINDS for task in kind.tasks]
    assert len(set(timers)) == len(timers)
    assert len(set(tasks)) == len(tasks)
    assert len(empty_store().stores) == len(GROUP_KINDS)
    assert all(kind.store.group_key in kind.store.keys for kind in GROUP_KINDS)


def test_records_are_replayed(driver: ThirdKindDriver) -> None:
    """The store of the kind replays its records, after a load and after an append."""
    assert driver.third.store.groups[GROUP].members == {"a"}
    write(driver, member_record(GROUP, "b"))
    assert driver.third.store.groups[GROUP].members == {"a", "b"}
    assert driver.shard.store.is_known(GROUP)
    assert driver.shard.store.group_ids() == ["orders", GROUP]


def test_a_group_of_another_kind_is_replaced(driver: ThirdKindDriver) -> None:
    """The first record of another kind replaces a simple group, so that a group id belongs to one kind only."""
    driver.ask(GroupShard.handle_offset_commit, _simple_commit("later"), 9)
    assert "later" in driver.shard.classic_groups.store.groups
    write(driver, group_record("later", 1))
    assert "later" not in driver.shard.classic_groups.store.groups
    assert "later" in driver.third.store.groups


def _simple_commit(group_id: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topic = OffsetCommitRequestTopic(name="events", partitions=[partition])
    return OffsetCommitRequest(
        group_id=group_id, generation_id_or_member_epoch=-1, retention_time_ms=-1, topics=[topic]
    )


@pytest.fixture
def three_kinds_in_the_table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Adds the third kind to the table itself."""
    monkeypatch.setattr(group_kinds, "GROUP_KINDS", (*GROUP_KINDS, THIRD_KIND))
    record_serde._understood.cache_clear()
    yield
    record_serde._understood.cache_clear()


def test_records_of_a_kind_that_is_not_in_the_table_are_skipped() -> None:
    """Records of a kind that is not in the table are skipped when the log is read."""
    serde = GroupRecordSerde()
    assert serde.deserialize(*serde.serialize(RECORDS[0])) is None


@pytest.mark.usefixtures("three_kinds_in_the_table")
def test_records_of_a_kind_in_the_table_are_decoded() -> None:
    """Records of a kind in the table are decoded from their bytes."""
    serde = GroupRecordSerde()
    decoded = serde.deserialize(*serde.serialize(RECORDS[0]))
    assert decoded is not None
    assert type(decoded.key) is type(RECORDS[0].key)


def test_timers_reach_their_kind(driver: ThirdKindDriver) -> None:
    """A timer reaches its kind: the session that began with the load ends, and its member is removed."""
    assert TimerKey(SESSION, GROUP, "a") in driver.timers
    driver.advance(10_000)
    assert driver.third.store.groups[GROUP].is_empty


def test_outcomes_of_background_tasks_reach_their_kind(driver: ThirdKindDriver) -> None:
    """The outcome of a background task reaches the kind that started the task."""
    driver.apply(driver.shard.rebalance(GROUP, driver.now))
    driver.run_tasks()
    assert driver.third.counts == {GROUP: 1}


def test_groups_are_listed(driver: ThirdKindDriver) -> None:
    """ListGroups lists groups of the kind after those of the other kinds, and filters them by type and state."""
    third = (GROUP, "share", "Stable", "share")
    assert listed(driver) == [("orders", "classic", "Stable", "consumer"), third]
    assert listed(driver, types_filter=["Share"]) == [third]
    assert listed(driver, types_filter=["classic"], states_filter=["Empty"]) == []


def test_groups_are_measured(driver: ThirdKindDriver) -> None:
    """The member count of the group comes from the kind."""
    assert driver.shard.groups.member_count(GROUP) == 1


def test_groups_are_deleted_when_they_are_empty(driver: ThirdKindDriver) -> None:
    """DeleteGroups appends the tombstones of the kind, and drops the in-memory state of this kind only."""
    request = DeleteGroupsRequest(groups_names=[GROUP])

    def deleted() -> int:
        answer = cast(DeleteGroupsResponse, driver.answer_to(GroupShard.handle_delete_groups, request))
        return answer.results[0].error_code

    assert deleted() == ErrorCode.NON_EMPTY_GROUP
    write(driver, member_record(GROUP, "a", is_there=False))
    assert deleted() == ErrorCode.NONE
    assert driver.third.store.groups == {}
    assert driver.third.forgotten == [GROUP]
    assert [event.group_type.value for event in driver.events if isinstance(event, GroupDeleted)] == ["share"]
    assert deleted() == ErrorCode.GROUP_ID_NOT_FOUND


def test_empty_groups_expire(driver: ThirdKindDriver) -> None:
    """An empty group without offsets expires, as for all kinds."""
    write(driver, member_record(GROUP, "a", is_there=False))
    driver.timers.pop(TimerKey(SESSION, GROUP, "a"))
    driver.advance(driver.config.expiry_interval_ms)
    assert driver.third.store.groups == {}


def test_offsets_are_checked_by_the_kind(driver: ThirdKindDriver) -> None:
    """The kind checks commits and fetches, and is told of each accepted commit."""
    assert driver.answer_to(GroupShard.handle_offset_commit, commit("ghost")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.third.commits == 0
    assert isinstance(driver.answer_to(GroupShard.handle_offset_commit, commit("a")), OffsetCommitResponse)
    assert driver.third.commits == 1

    def fetch(member_id: str) -> OffsetFetchRequest:
        return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, member_id=member_id, topics=[])])

    assert driver.answer_to(GroupShard.handle_offset_fetch, fetch("ghost")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert isinstance(driver.answer_to(GroupShard.handle_offset_fetch, fetch("a")), OffsetFetchResponseGroup)

    ticket = driver.ask(
        lambda shard, request, context, ticket, now: shard.handle_txn_offset_commit(request, context, ticket, now, 0),
        TxnOffsetCommitRequest(group_id=GROUP),
        5,
    )
    assert driver.answers[ticket] is ErrorCode.GROUP_ID_NOT_FOUND


def test_requests_of_the_classic_protocol_are_decided_by_the_kind(driver: ThirdKindDriver) -> None:
    """The kind decides all four requests of the classic protocol; this kind refuses them."""
    assert driver.answers[driver.join(group_id=GROUP)] is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    for handle, request in (
        (GroupShard.handle_sync_group, SyncGroupRequest(group_id=GROUP)),
        (GroupShard.handle_heartbeat, HeartbeatRequest(group_id=GROUP)),
        (GroupShard.handle_leave_group, LeaveGroupRequest(group_id=GROUP)),
    ):
        assert driver.answer_to(handle, request) is ErrorCode.UNKNOWN_MEMBER_ID


def test_requests_for_other_kinds_do_not_take_the_group(driver: ThirdKindDriver) -> None:
    """A consumer heartbeat does not convert a group of the third kind, and descriptions name the mismatch."""
    heartbeat = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id="c", member_epoch=0)
    answer = cast(
        ConsumerGroupHeartbeatResponse, driver.answer_to(GroupShard.handle_consumer_group_heartbeat, heartbeat, 1)
    )
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == f"Group {GROUP} is not a consumer group."
    classic = driver.answer_to(GroupShard.handle_describe_groups, DescribeGroupsRequest(groups=[GROUP]), 6)
    (described,) = cast(DescribeGroupsResponse, classic).groups
    assert described.error_message == f"Group {GROUP} is not a classic group."
    consumer = driver.answer_to(
        GroupShard.handle_consumer_group_describe, ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1
    )
    assert cast(ConsumerGroupDescribeResponse, consumer).groups[0].error_message == answer.error_message


def test_topics_reach_each_kind(driver: ThirdKindDriver) -> None:
    """Each kind gets the topics of a metadata update at once."""
    driver.apply(driver.shard.on_metadata_update(NO_TOPICS, (), driver.now))
    assert driver.third.topics is NO_TOPICS
