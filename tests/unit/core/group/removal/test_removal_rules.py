"""Tests of the removal of offsets and groups, and of the tombstones that it appends."""

from __future__ import annotations

from typing import cast

from tests.unit.core.group.shard_driver import GROUP, ShardDriver, Written, small_sessions, subscription
from tests.unit.core.group.transactions import commit_in_transaction

from klamm.core.coordinator.cluster_topics import NO_TOPICS
from klamm.core.coordinator.shard_contract import CoordinatorRecord, DeletedTopic, Ticket
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.incremental_work import INCREMENTAL_WORK_TIMER
from klamm.core.group.shard import EXPIRY_TIMER, GroupShard
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import ZERO_UUID
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.delete_groups_response import DeleteGroupsResponse
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.schema.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from klamm.protocol.schema.offset_delete_response import OffsetDeleteResponse
from klamm.protocol.schema.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from klamm.protocol.types import ProducerEpoch, ProducerId, TopicId

EVENTS_0, AUDIT_0 = ("events", 0), ("audit", 0)
DAY = 24 * 60 * 60 * 1000
WEEK = 7 * DAY
CHECK = 600_000


def delete_offsets(driver: ShardDriver, topic: str, group_id: str = GROUP) -> ErrorCode:
    """Sends OffsetDelete for partition 0; returns the error code of the request, or else of the partition."""
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])],
    )
    answer = driver.answers[driver.ask(GroupShard.handle_offset_delete, request, 0)]
    if isinstance(answer, ErrorCode):
        return answer
    return ErrorCode(cast(OffsetDeleteResponse, answer).topics[0].partitions[0].error_code)


def delete_groups(driver: ShardDriver, *group_ids: str) -> dict[str, ErrorCode]:
    """Sends DeleteGroups; returns the error code of each group."""
    request = DeleteGroupsRequest(groups_names=list(group_ids))
    answer = driver.answers[driver.ask(GroupShard.handle_delete_groups, request, 2)]
    return {one.group_id: ErrorCode(one.error_code) for one in cast(DeleteGroupsResponse, answer).results}


def max_records_per_step(driver: ShardDriver, limit: int) -> int:
    """Runs all incremental work, checks that no step writes more than `limit` offset records, and counts the steps."""
    steps = 0
    while INCREMENTAL_WORK_TIMER in driver.timers:
        before = len(driver.log)
        driver.step_chores()
        offsets = [each for each in driver.log[before:] if isinstance(each.record.key, OffsetCommitKey)]
        assert len(offsets) <= limit
        steps += 1
    return steps


def in_transaction(driver: ShardDriver, producer: int, topic: str = "events", topic_id: bytes = ZERO_UUID) -> None:
    """Appends an offset of an open transaction to the log."""
    key = OffsetCommitKey(group=GROUP, topic=topic, partition=0)
    value = OffsetCommitValue(offset=9, commit_timestamp=driver.now, topic_id=topic_id)
    driver._write(Written(ProducerId(producer), CoordinatorRecord(key, value, 4)))


def tombstones(driver: ShardDriver) -> list[str]:
    """Returns the tombstones in the log, in order."""
    gone = []
    for written in driver.log:
        key = written.record.key
        if written.record.value is None:
            gone.append(
                f"{key.topic}-{key.partition}"
                if isinstance(key, OffsetCommitKey)
                else cast(GroupMetadataKey, key).group
            )
    return gone


# OffsetDelete


def test_offset_can_be_deleted_alone() -> None:
    """OffsetDelete removes one offset, and the group stays."""
    driver = ShardDriver()
    driver.commit(1)
    driver.commit(2, topic="audit")
    assert delete_offsets(driver, "events") is ErrorCode.NONE
    assert driver.fetch(EVENTS_0, AUDIT_0) == {EVENTS_0: -1, AUDIT_0: 2}
    assert tombstones(driver) == ["events-0"]


def test_offset_that_is_not_there_leaves_no_tombstone() -> None:
    """OffsetDelete of an offset that does not exist succeeds without a tombstone."""
    driver = ShardDriver()
    driver.commit(1)
    assert delete_offsets(driver, "audit") is ErrorCode.NONE
    assert tombstones(driver) == []


def test_offset_that_is_not_there_leaves_a_tombstone_until_its_coordinator_has_written() -> None:
    """I17: until a new coordinator has written a record, OffsetDelete writes a tombstone also without an offset.

    An earlier coordinator may have appended an offset that was not committed, and that only another replica has. If
    this replica is elected next, the offset would be there after its deletion was acknowledged.
    """
    driver = ShardDriver()
    driver.commit(1)
    driver = driver.reload()
    assert delete_offsets(driver, "audit") is ErrorCode.NONE
    assert tombstones(driver) == ["audit-0"]
    assert delete_offsets(driver, "audit") is ErrorCode.NONE
    assert tombstones(driver) == ["audit-0"]
    assert driver.fetch(EVENTS_0, AUDIT_0) == {EVENTS_0: 1, AUDIT_0: -1}


def test_offset_of_a_topic_that_is_read_cannot_be_deleted() -> None:
    """OffsetDelete refuses a topic that a member reads, because its consumers would jump; other topics are allowed."""
    driver = ShardDriver()
    ids = driver.stable_group()
    driver.commit(1, member_id=ids[0], generation=1)
    driver.commit(2, member_id=ids[0], generation=1, topic="audit")
    assert delete_offsets(driver, "events") is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete_offsets(driver, "audit") is ErrorCode.NONE


def test_offset_delete_refuses_groups_it_cannot_understand() -> None:
    """OffsetDelete refuses a group of another protocol type, which may read any topic, and an unknown group."""
    driver = ShardDriver()
    driver.stable_group(protocol_type="connect", protocols=(("v1", b""),))
    assert delete_offsets(driver, "events") is ErrorCode.NON_EMPTY_GROUP
    assert delete_offsets(driver, "events", "ghost") is ErrorCode.GROUP_ID_NOT_FOUND


def test_offset_delete_takes_open_transactions_with_it() -> None:
    """OffsetDelete also removes offsets of open transactions, so that they do not reappear with the marker."""
    driver = ShardDriver()
    in_transaction(driver, 1000)
    assert delete_offsets(driver, "events") is ErrorCode.NONE
    driver.shard.replay_end_transaction_marker(ProducerId(1000), ProducerEpoch(0), committed=True)
    assert driver.fetch(EVENTS_0, require_stable=True) == {EVENTS_0: -1}


# DeleteGroups


def test_empty_group_is_deleted_with_its_offsets() -> None:
    """DeleteGroups removes the offsets of an empty group and then the group, also for a later restart."""
    driver = ShardDriver()
    ids = driver.stable_group(size=1)
    driver.commit(1, member_id=ids[0], generation=1)
    driver.leave((ids[0], None))
    assert delete_groups(driver, GROUP) == {GROUP: ErrorCode.NONE}
    assert tombstones(driver) == ["events-0", GROUP]
    assert driver.shard.store == driver.reload().shard.store
    assert driver.shard.classic_groups.find(GROUP) is None


def test_group_that_cannot_be_deleted_says_why() -> None:
    """DeleteGroups answers each group with its own error code."""
    driver = ShardDriver()
    driver.stable_group()
    driver.commit(1, group_id="simple")
    assert delete_groups(driver, GROUP, "ghost", "simple") == {
        GROUP: ErrorCode.NON_EMPTY_GROUP,
        "ghost": ErrorCode.GROUP_ID_NOT_FOUND,
        "simple": ErrorCode.NONE,
    }


def test_deleted_group_takes_open_transactions_with_it() -> None:
    """DeleteGroups appends one tombstone for each partition with a committed or a transactional offset."""
    driver = ShardDriver()
    driver.commit(1)
    in_transaction(driver, 1000)
    in_transaction(driver, 1000, "audit")
    delete_groups(driver, GROUP)
    assert tombstones(driver) == ["events-0", "audit-0", GROUP]


# Deleted topics


def test_deleted_topic_takes_its_offsets_with_it() -> None:
    """The deletion of a topic removes offsets with its topic id, and offsets without a topic id."""
    driver = ShardDriver()
    old, new = TopicId(bytes([1]) * 16), TopicId(bytes([2]) * 16)
    driver.commit(1, topic_id=old)
    driver.commit(2, partition=1)
    driver.commit(3, partition=2, topic_id=new)
    driver.commit(4, topic="audit", topic_id=old)
    in_transaction(driver, 1000, "events")
    driver.apply(driver.shard.on_metadata_update(NO_TOPICS, [DeletedTopic("events", old)], driver.now))
    driver.do_chores()
    assert driver.fetch(all_topics=True) == {("events", 2): 3, AUDIT_0: 4}
    assert driver.shard.store.pending_offsets == {}


def test_refused_tombstones_of_a_deleted_topic_are_written_later() -> None:
    """If the log refuses the tombstones, as with too few replicas in sync, they are written when it takes records
    again. An offset that was committed meanwhile for a new topic of the name stays."""
    driver = ShardDriver(small_sessions(looks_per_step=2))
    old = TopicId(bytes([1]) * 16)
    for group in range(6):
        driver.commit(1, group_id=f"group-{group}", topic_id=old)
        driver.commit(2, partition=1, group_id=f"group-{group}")
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.apply(driver.shard.on_metadata_update(NO_TOPICS, [DeletedTopic("events", old)], driver.now))
    driver.do_chores()
    assert len(driver.shard.store.offsets) == 6

    driver.append_error = None
    driver.commit(3, partition=2, group_id="group-0")
    driver.advance(10_000)
    driver.do_chores()

    assert driver.shard.store.offsets.keys() == {"group-0"}
    assert driver.fetch(all_topics=True, group_id="group-0") == {("events", 2): 3}


def test_topics_of_one_name_that_went_one_after_the_other_both_take_their_offsets_with_them() -> None:
    """If two topics of one name are deleted before an update, the offsets of both are removed."""
    driver = ShardDriver()
    first, second = TopicId(bytes([1]) * 16), TopicId(bytes([2]) * 16)
    driver.commit(1, partition=1, topic_id=first)
    driver.commit(2, partition=2, topic_id=second)
    in_transaction(driver, 1000, "events", first)
    gone = [DeletedTopic("events", first), DeletedTopic("events", second)]
    driver.apply(driver.shard.on_metadata_update(NO_TOPICS, gone, driver.now))
    driver.do_chores()
    assert driver.fetch(all_topics=True) == {}
    assert driver.shard.store.pending_offsets == {}


def test_deleted_topic_takes_the_offsets_of_very_many_groups_with_it_in_steps() -> None:
    """The offsets of a deleted topic are removed in steps, and no step handles more groups than `looks_per_step`."""
    driver = ShardDriver(small_sessions(looks_per_step=4))
    old = TopicId(bytes([1]) * 16)
    for group in range(20):
        driver.commit(1, group_id=f"group-{group}", topic_id=old)
    driver.apply(driver.shard.on_metadata_update(NO_TOPICS, [DeletedTopic("events", old)], driver.now))
    assert len(driver.shard.store.offsets) == 20
    max_records_per_step(driver, 4)
    assert driver.shard.store.offsets == {}


def test_what_changes_while_a_deleted_topic_is_looked_for_is_seen_as_it_is_then() -> None:
    """Offsets that are committed for a new topic of the same name stay, with or without a topic id."""
    driver = ShardDriver(small_sessions(looks_per_step=2))
    old, new = TopicId(bytes([1]) * 16), TopicId(bytes([2]) * 16)
    for group in range(4):
        driver.commit(1, group_id=f"group-{group}", topic_id=old)
    driver.apply(driver.shard.on_metadata_update(NO_TOPICS, [DeletedTopic("events", old)], driver.now))
    driver.step_chores()
    driver.commit(2, group_id="group-1", topic_id=new)
    driver.commit(3, group_id="group-2")
    assert delete_groups(driver, "group-3") == {"group-3": ErrorCode.NONE}
    driver.do_chores()
    assert driver.shard.store.offsets.keys() == {"group-1", "group-2"}
    assert driver.fetch(EVENTS_0, group_id="group-1") == {EVENTS_0: 2}
    assert driver.fetch(EVENTS_0, group_id="group-2") == {EVENTS_0: 3}


# Deletion of large groups


def large_group(driver: ShardDriver, offsets: int = 9) -> None:
    for partition in range(offsets):
        driver.commit(1, partition=partition)


def ask_to_delete(driver: ShardDriver, *group_ids: str) -> Ticket:
    return driver.ask(GroupShard.handle_delete_groups, DeleteGroupsRequest(groups_names=list(group_ids)), 2)


def ask_for_offsets(driver: ShardDriver) -> Ticket:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=GROUP, topics=None)])
    return driver.ask(GroupShard.handle_offset_fetch, request, 8)


def codes(driver: ShardDriver, ticket: Ticket) -> dict[str, ErrorCode]:
    answer = cast(DeleteGroupsResponse, driver.answers[ticket])
    return {one.group_id: ErrorCode(one.error_code) for one in answer.results}


def test_group_of_very_many_offsets_is_deleted_in_steps() -> None:
    """A large group is deleted in steps, its group record last, and then the whole request is answered."""
    driver = ShardDriver(small_sessions(looks_per_step=4))
    large_group(driver)
    driver.commit(1, group_id="small")
    ticket = ask_to_delete(driver, GROUP, "ghost", "small")
    assert ticket not in driver.answers
    max_records_per_step(driver, 4)
    assert codes(driver, ticket) == {
        GROUP: ErrorCode.NONE,
        "ghost": ErrorCode.GROUP_ID_NOT_FOUND,
        "small": ErrorCode.NONE,
    }
    assert tombstones(driver) == [*(f"events-{each}" for each in range(9)), GROUP, "events-0", "small"]
    assert driver.shard.store == driver.reload().shard.store
    assert driver.shard.classic_groups.store.groups == {}


def test_nobody_may_use_a_group_that_is_being_deleted() -> None:
    """All requests for a group that is being deleted get COORDINATOR_LOAD_IN_PROGRESS, which clients retry."""
    driver = ShardDriver(small_sessions(looks_per_step=4))
    large_group(driver)
    first = ask_to_delete(driver, GROUP)
    driver.step_chores()
    second = ask_to_delete(driver, GROUP)
    busy = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert driver.commit(2) is busy
    assert commit_in_transaction(driver, "", -1) is busy
    assert driver.answers[ask_for_offsets(driver)] is busy
    assert delete_offsets(driver, "events") is busy
    assert driver.answers[driver.join()] is busy
    driver.do_chores()
    assert codes(driver, first) == {GROUP: ErrorCode.NONE}
    assert codes(driver, second) == {GROUP: busy}
    assert driver.commit(2) is ErrorCode.NONE


def test_deletion_that_the_log_refuses_says_so_and_can_be_asked_for_again() -> None:
    """A deletion that the log refuses fails with an error; the group can be used and deleted again."""
    driver = ShardDriver(small_sessions(looks_per_step=4))
    large_group(driver)
    ticket = ask_to_delete(driver, GROUP)
    driver.step_chores()
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.do_chores()
    assert codes(driver, ticket) == {GROUP: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    driver.append_error = None
    assert GROUP in driver.shard.classic_groups.store.groups
    assert driver.commit(2) is ErrorCode.NONE
    again = ask_to_delete(driver, GROUP)
    driver.do_chores()
    assert codes(driver, again) == {GROUP: ErrorCode.NONE}


def test_deletion_is_answered_when_its_last_record_is_committed() -> None:
    """A deletion is answered when its last record is committed, not when it is appended."""
    driver = ShardDriver(small_sessions(looks_per_step=4))
    large_group(driver)
    driver.hold_commits = True
    ticket = ask_to_delete(driver, GROUP)
    driver.do_chores()
    assert driver.shard.classic_groups.store.groups == {}
    assert ticket not in driver.answers
    driver.commit_held()
    assert codes(driver, ticket) == {GROUP: ErrorCode.NONE}


def test_deletion_that_leadership_interrupts_is_answered() -> None:
    """A deletion that a change of leadership interrupts is answered with NOT_COORDINATOR."""
    driver = ShardDriver(small_sessions(looks_per_step=4))
    large_group(driver)
    ticket = ask_to_delete(driver, GROUP)
    driver.step_chores()
    driver.apply(driver.shard.on_unloaded())
    assert codes(driver, ticket) == {GROUP: ErrorCode.NOT_COORDINATOR}


# Expiration


def test_offsets_of_a_simple_group_expire_after_their_commit() -> None:
    """The offsets of a simple group expire one by one from their commit, and the group is deleted with the last one."""
    driver = ShardDriver()
    driver.commit(1)
    driver.advance(3 * DAY)
    driver.commit(2, topic="audit")
    driver.advance(4 * DAY + CHECK)
    assert driver.fetch(all_topics=True) == {AUDIT_0: 2}
    driver.advance(3 * DAY)
    assert driver.shard.classic_groups.store.groups == {}
    assert tombstones(driver) == ["events-0", "audit-0", GROUP]


def test_offsets_of_an_empty_group_expire_after_it_became_empty() -> None:
    """The offsets of an empty group expire from the time when the group became empty, not from their commit."""
    driver = ShardDriver()
    ids = driver.stable_group(size=1, session_timeout_ms=1_800_000)
    driver.commit(1, member_id=ids[0], generation=1)
    for _ in range(2 * 7 * 24 * 2):
        driver.advance(1_750_000)
        driver.heartbeat(ids[0], 1)
    assert driver.state() is GroupState.STABLE
    driver.leave((ids[0], None))
    driver.advance(WEEK - CHECK - 1)
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 1}
    driver.advance(2 * CHECK + 1)
    assert driver.shard.classic_groups.store.groups == {}


def test_offsets_of_topics_that_are_read_no_more_expire() -> None:
    """In a stable consumer group, offsets of topics without a subscription expire, and the others stay."""
    driver = ShardDriver()
    ids = driver.stable_group(size=1, session_timeout_ms=1_800_000)
    driver.commit(1, member_id=ids[0], generation=1)
    driver.commit(2, member_id=ids[0], generation=1, topic="audit")
    for _ in range(7 * 24 * 2 + 20):
        driver.advance(1_800_000 - 1)
        driver.heartbeat(ids[0], 1)
    assert driver.fetch(EVENTS_0, AUDIT_0) == {EVENTS_0: 1, AUDIT_0: -1}


def test_offsets_of_members_that_are_not_understood_do_not_expire() -> None:
    """Offsets do not expire if the subscription of a member cannot be decoded."""
    driver = ShardDriver()
    join = {"protocols": (("range", b"\x00\x00no subscription"),), "session_timeout_ms": 1_800_000}
    ids = driver.stable_group(size=1, **join)
    driver.commit(2, member_id=ids[0], generation=1, topic="audit")
    for _ in range(7 * 24 * 2 + 20):
        driver.advance(1_800_000 - 1)
        driver.heartbeat(ids[0], 1)
    assert driver.fetch(AUDIT_0) == {AUDIT_0: 2}


def test_commit_with_a_retention_time_is_held_to_it() -> None:
    """A commit with a retention time (OffsetCommit versions 2 to 4) overrides the retention time of the broker."""
    driver = ShardDriver()
    driver.commit(1, retention_ms=DAY)
    driver.commit(2, topic="audit", retention_ms=2 * WEEK)
    driver.advance(DAY + CHECK)
    assert driver.fetch(EVENTS_0, AUDIT_0) == {EVENTS_0: -1, AUDIT_0: 2}
    driver.advance(WEEK + DAY)
    assert driver.fetch(AUDIT_0) == {AUDIT_0: 2}


def test_open_transaction_keeps_what_it_touches() -> None:
    """An offset does not expire while a transaction for its partition is open."""
    driver = ShardDriver()
    driver.commit(1)
    in_transaction(driver, 1000)
    driver.advance(2 * WEEK)
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 1}
    driver.shard.replay_end_transaction_marker(ProducerId(1000), ProducerEpoch(0), committed=False)
    driver.advance(CHECK)
    assert driver.shard.classic_groups.store.groups == {}


def test_group_that_never_came_to_anything_goes_with_the_next_check() -> None:
    """A group whose only member id was never used is deleted by the next expiration check."""
    driver = ShardDriver()
    driver.member_id()
    driver.advance(CHECK)
    assert tombstones(driver) == [GROUP]


def test_expiry_deletes_many_groups() -> None:
    """An expiration check deletes all expired groups, also if they are more than one step handles."""
    driver = ShardDriver(small_sessions(offsets_retention_ms=1))
    for index in range(1201):
        driver.commit(1, group_id=f"group-{index}")
    driver.timers[EXPIRY_TIMER] = driver.now + 1
    driver.advance(1)
    assert driver.shard.classic_groups.store.groups == {}


def test_expiry_looks_at_many_offsets_in_steps() -> None:
    """An expiration step handles at most `looks_per_step` offsets, so a large group takes several steps."""
    driver = ShardDriver(small_sessions(offsets_retention_ms=1, looks_per_step=4))
    for group in range(3):
        for partition in range(9):
            driver.commit(1, group_id=f"group-{group}", partition=partition)
    driver.advance(1)
    driver.apply(driver.shard.handle_timer(EXPIRY_TIMER, driver.now))
    assert 5 < max_records_per_step(driver, 4) <= 40
    assert driver.shard.classic_groups.store.groups == {}
    assert driver.reload().shard.store == driver.shard.store


def test_groups_that_go_while_others_expire_are_left_out() -> None:
    """An expiration check skips groups that are deleted between two of its steps."""
    driver = ShardDriver(small_sessions(looks_per_step=4))
    for group in range(6):
        for partition in range(2):
            driver.commit(1, group_id=f"group-{group}", partition=partition)
    driver.apply(driver.shard.handle_timer(EXPIRY_TIMER, driver.now))
    driver.step_chores()
    assert delete_groups(driver, "group-1") == {"group-1": ErrorCode.NONE}
    driver.do_chores()
    assert driver.shard.classic_groups.store.groups.keys() == {f"group-{group}" for group in (0, 2, 3, 4, 5)}


def test_group_that_gets_members_while_it_expires_keeps_what_they_read() -> None:
    """Each expiration step checks the group again, so offsets stay if the group gets members meanwhile."""
    driver = ShardDriver(small_sessions(offsets_retention_ms=1, looks_per_step=4))
    for partition in range(9):
        driver.commit(1, partition=partition)
    driver.advance(1)
    driver.apply(driver.shard.handle_timer(EXPIRY_TIMER, driver.now))
    driver.step_chores()
    driver.step_chores()
    left = driver.fetch(all_topics=True)
    assert 0 < len(left) < 9
    driver.stable_group(size=1)
    driver.do_chores()
    assert driver.fetch(all_topics=True) == left
    assert driver.state() is GroupState.STABLE


# Ephemeral groups

EPHEMERAL = {"ephemeral_patterns": ("console-consumer-*", "test-?"), "ephemeral_retention_ms": 30_000}


def test_ephemeral_groups_are_forgotten_soon() -> None:
    """Groups that match an ephemeral pattern expire after their own retention time; other groups stay."""
    driver = ShardDriver(small_sessions(**EPHEMERAL))
    for group_id in ("console-consumer-4711", "test-1", "test-11", "orders"):
        driver.commit(1, group_id=group_id)
    driver.advance(60_000)
    assert sorted(driver.shard.classic_groups.store.groups) == ["orders", "test-11"]
    assert sorted(tombstones(driver)) == ["console-consumer-4711", "events-0", "events-0", "test-1"]
    driver.advance(WEEK + CHECK)
    assert driver.shard.classic_groups.store.groups == {}


def test_ephemeral_group_with_members_is_kept() -> None:
    """The retention time of an ephemeral group begins when its last member leaves, as for any group."""
    config = small_sessions(ephemeral_patterns=("ord*",), ephemeral_retention_ms=30_000)
    driver = ShardDriver(config)
    ids = driver.stable_group(size=1)
    driver.commit(1, member_id=ids[0], generation=1)
    for _ in range(20):
        driver.advance(5000)
        driver.heartbeat(ids[0], 1)
    driver.leave((ids[0], None))
    driver.advance(29_000)
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 1}
    driver.advance(31_001)
    assert driver.shard.classic_groups.store.groups == {}


def test_ephemeral_group_waits_for_its_transactions() -> None:
    """An ephemeral group with an open transaction does not expire."""
    driver = ShardDriver(small_sessions(ephemeral_patterns=("*",), ephemeral_retention_ms=30_000))
    driver.commit(1)
    in_transaction(driver, 1000)
    driver.advance(DAY)
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 1}
    driver.shard.replay_end_transaction_marker(ProducerId(1000), ProducerEpoch(0), committed=True)
    driver.advance(60_000)
    assert driver.shard.classic_groups.store.groups == {}


def test_subscription_is_read_in_any_version() -> None:
    """A subscription of any version is decoded, because version 0 is a prefix of all later versions."""
    driver = ShardDriver()
    newest = b"\x00\x03" + subscription("events")[2:] + b"\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x05\xff\xff"
    driver.stable_group(protocols=(("range", newest),))
    assert driver.group().topics == frozenset({"events"})
