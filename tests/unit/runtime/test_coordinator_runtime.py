"""Tests the coordinator runtime: append, replay, wait and answer, and what happens when one of them fails."""

from __future__ import annotations

import pytest
from tests.unit.runtime.coordinator_world import GROUP, P0, TOPIC_ID, CoordinatorWorld
from tests.unit.runtime.fake_ports import MemoryLog, Pledge

from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.events import NewEpoch
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage, TopicImage
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.types import LeaderEpoch, PartitionIndex, TopicId

# Answers


def test_answer_is_there_at_once_where_nothing_has_to_be_waited_for() -> None:
    """On a single node each append raises the high watermark, so answers are available at once, without a promise."""
    world = CoordinatorWorld()
    assert not isinstance(world.commit(1), Pledge)
    assert not isinstance(world.fetch(), Pledge)
    ids = world.stable_group()
    assert world.heartbeat(ids[0], 1) is ErrorCode.NONE
    assert world.timers.now_ms() == 1


def test_decision_is_one_batch() -> None:
    """All records of one decision are in one batch, so that they are written together or not at all."""
    world = CoordinatorWorld()
    world.commit(1)
    world.commit(2, topic="audit")
    before = world.log.appends
    world.coordinator.delete_groups(DeleteGroupsRequest(groups_names=[GROUP]), world.client(2))
    assert world.log.appends == before + 1
    assert [record.value for record in world.log.records(P0)[-3:]] == [None] * 3


def test_answer_waits_for_the_high_watermark() -> None:
    """A write, and a read of what was written, are answered after the commit, because the record may be lost before."""
    world = CoordinatorWorld()
    world.log.holds_high_watermark = True
    commit, fetch = world.commit(7), world.fetch()
    assert world.is_waiting(commit)
    assert world.is_waiting(fetch)
    world.log.commit(P0)
    assert world.now(commit).topics[0].partitions[0].error_code == 0
    assert world.now(fetch).topics[0].partitions[0].committed_offset == 7


def test_answers_come_in_the_order_of_the_decisions() -> None:
    """Each answer waits for its own record: the high watermark may pass one record and not the next."""
    world = CoordinatorWorld()
    world.log.holds_high_watermark = True
    first, second = world.commit(1), world.commit(2)
    world.log.commit(P0, up_to=1)
    assert not world.is_waiting(first)
    assert world.is_waiting(second)
    world.log.commit(P0)
    assert not world.is_waiting(second)


def test_repeated_commit_waits_for_a_record_of_the_new_coordinator() -> None:
    """I17: after a load, a commit that repeats the last one is answered once a record of this coordinator is committed.
    Then no replica that may be elected has a commit of an earlier coordinator that was never committed."""
    world = CoordinatorWorld()
    assert world.commit_code(5) is ErrorCode.NONE
    world = world.restart()
    world.log.holds_high_watermark = True
    first, second = world.commit(5), world.commit(5)
    assert world.is_waiting(first)
    assert world.is_waiting(second)
    world.log.commit(P0)
    assert [world.now(each).topics[0].partitions[0].error_code for each in (first, second)] == [0, 0]
    assert len(world.log.records(P0)) == 2


def test_decisions_see_what_is_written_but_not_committed() -> None:
    """The shard's state contains records that are not committed yet, so that the next decision builds on them."""
    world = CoordinatorWorld()
    world.log.holds_high_watermark = True
    world.commit(1)
    offset = world.shard().store.offset(GROUP, "events", P0)
    assert offset is not None
    assert offset.offset == 1


def test_append_that_finds_all_committed_releases_who_waited() -> None:
    """An append whose records are committed at once also completes the answers that waited for earlier records."""
    world = CoordinatorWorld()
    world.log.holds_high_watermark = True
    first = world.commit(1)
    world.log.holds_high_watermark = False
    second = world.commit(2)
    assert not world.is_waiting(first)
    assert world.now(second).topics[0].partitions[0].error_code == 0


# Failures


@pytest.mark.parametrize(
    ("log_says", "client_hears"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_append_errors_are_mapped_for_the_client(log_says: ErrorCode, client_hears: ErrorCode) -> None:
    """An append error is mapped to an error that a coordinator's clients know, and the append changes no state."""
    world = CoordinatorWorld()
    world.commit(1)
    world.log.append_error = log_says
    assert world.commit_code(2) is client_hears
    assert world.fetched() == 1


def test_refused_appends_in_a_row_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """With too few in-sync replicas, the log may refuse thousands of requests per second."""
    world = CoordinatorWorld()
    world.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    for _ in range(3):
        world.commit_code(1)
    assert len(caplog.messages) == 1
    world.log.append_error = ErrorCode.MESSAGE_TOO_LARGE
    world.commit_code(1)
    assert len(caplog.messages) == 2
    world.log.append_error = None
    world.commit_code(1)
    world.log.append_error = ErrorCode.MESSAGE_TOO_LARGE
    world.commit_code(2)
    assert len(caplog.messages) == 3


def test_write_that_is_not_committed_in_time_fails() -> None:
    """A write that is not committed within `offsets.commit.timeout.ms` fails; its record stays and may commit later."""
    world = CoordinatorWorld()
    world.log.holds_high_watermark = True
    commit = world.commit(3)
    world.timers.advance(4999)
    assert world.is_waiting(commit)
    later = world.commit(4)
    world.timers.advance(1)
    assert world.now(commit).topics[0].partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.is_waiting(later)
    world.timers.advance(5000)
    assert not world.is_waiting(later)
    world.log.commit(P0)
    assert world.fetched() == 4


def test_assignment_that_cannot_be_written_is_nobodys() -> None:
    """If an assignment cannot be written, the leader and the followers get the error, and the group rebalances."""
    world = CoordinatorWorld()
    ids = [world.now(world.join()).member_id for _ in range(2)]
    for member_id in ids:
        world.join(member_id)
    world.timers.advance(1)
    follower = world.sync(ids[1], 1)
    world.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    leader = world.sync(ids[0], 1, ids)
    codes = {world.now(answer).error_code for answer in (leader, follower)}
    assert codes == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    group = world.shard().classic_groups.find(GROUP)
    assert group is not None
    assert group.state is GroupState.PREPARING_REBALANCE


def test_assignment_waits_for_the_high_watermark() -> None:
    """Members get their assignment only when it is committed, because an uncommitted one may be lost."""
    world = CoordinatorWorld()
    ids = [world.now(world.join()).member_id for _ in range(2)]
    for member_id in ids:
        world.join(member_id)
    world.timers.advance(1)
    world.log.holds_high_watermark = True
    answers = [world.sync(ids[1], 1), world.sync(ids[0], 1, ids)]
    assert all(world.is_waiting(answer) for answer in answers)
    world.log.commit(P0)
    assert [world.now(answer).assignment for answer in answers] == [ids[1].encode(), ids[0].encode()]


def test_client_that_hung_up_is_not_answered() -> None:
    """A client that has disconnected (its promise is cancelled) is not answered, and the group continues."""
    world = CoordinatorWorld()
    member_id = world.now(world.join()).member_id
    parked = world.join(member_id)
    assert isinstance(parked, Pledge)
    parked.is_abandoned = True
    world.timers.advance(1)
    assert world.heartbeat(member_id, 1) is ErrorCode.NONE


def test_log_that_somebody_else_wrote_to_is_read_anew() -> None:
    """If another writer has appended to the log, the request fails with NOT_COORDINATOR and the log is loaded again."""
    world = CoordinatorWorld()
    world.commit(1)
    other = CoordinatorWorld(log=world.log)
    other.commit(5)
    assert world.commit_code(2) is ErrorCode.NOT_COORDINATOR
    world.timers.advance(0)
    assert world.shard().store == CoordinatorWorld(log=world.log).shard().store
    assert world.commit_code(3) is ErrorCode.NONE


def test_expiry_of_much_is_spread_over_batches() -> None:
    """The expiry of many offsets is spread over batches within the topic's limit. A commit above the limit is refused,
    because it must be one batch."""
    config = GroupCoordinatorConfig(offsets_retention_ms=1, offsets_retention_check_interval_ms=1000)
    world = CoordinatorWorld(config=config, log=MemoryLog(max_batch_bytes=400))
    for index in range(30):
        assert world.commit_code(index, topic=f"topic-{index}") is ErrorCode.NONE
    before = world.log.appends
    world.timers.advance(1000)
    assert world.shard().classic_groups.store.groups == {}
    assert world.log.appends > before + 3
    assert world.commit_code(1, topic="x" * 500) is ErrorCode.UNKNOWN_SERVER_ERROR


# Leadership


def test_partition_that_is_not_led_is_somebody_elses() -> None:
    """A partition that the broker does not lead answers NOT_COORDINATOR, so that the client finds the coordinator."""
    world = CoordinatorWorld()
    world.coordinator.on_resignation(P0)
    assert world.commit_code(1) is ErrorCode.NOT_COORDINATOR
    assert world.heartbeat("m", 1) is ErrorCode.NOT_COORDINATOR


def test_whoever_waits_hears_that_leadership_is_lost() -> None:
    """When leadership is lost, a waiting join and a commit that waits for replicas get NOT_COORDINATOR."""
    world = CoordinatorWorld()
    joining = world.join(world.now(world.join()).member_id)
    world.log.holds_high_watermark = True
    committing = world.commit(1, group_id="other")
    world.coordinator.on_resignation(P0)
    assert world.now(joining).error_code == ErrorCode.NOT_COORDINATOR
    assert world.now(committing).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR


def test_leadership_that_comes_back_starts_from_the_log() -> None:
    """When leadership comes back, the state is loaded from the log, and earlier timers do not ring."""
    world = CoordinatorWorld()
    ids = world.stable_group(session_timeout_ms=6000)
    world.timers.advance(5000)
    world.coordinator.on_resignation(P0)
    world.coordinator.on_leadership(P0, LeaderEpoch(1))
    world.timers.advance(5000)
    assert world.heartbeat(ids[0], 1) is ErrorCode.NONE


def test_same_epoch_of_a_partition_that_is_led_changes_nothing() -> None:
    """A report of the same or an older leader epoch leaves the groups unchanged: only replicas may have changed."""
    world = CoordinatorWorld()
    parked = world.join(world.now(world.join()).member_id)
    world.coordinator.on_leadership(P0, LeaderEpoch(0))
    assert world.is_waiting(parked)


def test_new_epoch_of_a_partition_that_is_led_loads_it_again() -> None:
    """Under a new leader epoch the groups are loaded from the log, to which another broker may have written. Waiting
    requests get NOT_COORDINATOR, and requests before the end of the load COORDINATOR_LOAD_IN_PROGRESS."""
    world = CoordinatorWorld()
    assert world.commit_code(1) is ErrorCode.NONE
    parked = world.join(world.now(world.join()).member_id)
    elsewhere = CoordinatorWorld(log=world.log)
    for offset in range(2, 600):
        assert elsewhere.commit_code(offset) is ErrorCode.NONE
    world.timers.step_ms = 5
    world.coordinator.on_leadership(P0, LeaderEpoch(1))
    world.timers.step_ms = 0
    assert world.now(parked).error_code == ErrorCode.NOT_COORDINATOR
    assert world.commit_code(7) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.now(world.fetch()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.timers.advance(0)
    assert world.fetched() == 599


def test_coordinator_that_resigned_answers_writes_and_tells_nothing() -> None:
    """After a resignation no alarm rings, no answer is sent later, no record is written and no event is published."""
    world = CoordinatorWorld(linger_ms=1000)
    ids = world.stable_group(1, session_timeout_ms=6000)
    newcomer = world.now(world.join(group_id="third")).member_id
    world.log.holds_high_watermark = True
    leave = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=ids[0])])
    left = world.coordinator.leave_group(leave, world.client(5))
    lingering = world.commit(1, group_id="other")
    world.events.clear()
    joining = world.join(newcomer, group_id="third")  # an event, and no record
    assert world.is_waiting(left)
    assert world.is_waiting(lingering)
    world.coordinator.on_resignation(P0)
    assert world.now(joining).error_code == ErrorCode.NOT_COORDINATOR
    assert world.now(left).error_code == ErrorCode.NOT_COORDINATOR
    assert world.now(lingering).topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    appends = world.log.appends
    world.log.commit(P0)
    world.timers.advance(60_000)
    assert world.log.appends == appends
    assert world.events == []


def test_waiting_sync_hears_that_leadership_is_lost() -> None:
    """SyncGroup requests of the leader, whose assignment is not committed yet, and of a follower get NOT_COORDINATOR
    instead of an assignment."""
    world = CoordinatorWorld()
    ids = [world.now(world.join()).member_id for _ in range(2)]
    for member_id in ids:
        world.join(member_id)
    world.timers.advance(1)
    world.log.holds_high_watermark = True
    answers = [world.sync(ids[1], 1), world.sync(ids[0], 1, ids)]
    world.coordinator.on_resignation(P0)
    assert {world.now(answer).error_code for answer in answers} == {ErrorCode.NOT_COORDINATOR}
    assert {world.now(answer).assignment for answer in answers} == {b""}


def test_resignation_during_a_load_ends_it() -> None:
    """A partition that is given up while it loads answers NOT_COORDINATOR, also after the time of the load."""
    world = CoordinatorWorld()
    for offset in range(600):
        assert world.commit_code(offset) is ErrorCode.NONE
    again = CoordinatorWorld(log=world.log, is_loaded=False, step_ms=5)
    again.timers.step_ms = 0
    assert again.commit_code(1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    again.coordinator.on_resignation(P0)
    assert again.commit_code(1) is ErrorCode.NOT_COORDINATOR
    again.timers.advance(1000)
    assert again.commit_code(1) is ErrorCode.NOT_COORDINATOR


def test_topic_of_another_broker_decides_the_number_of_partitions() -> None:
    """The number of partitions of `__consumer_offsets` is read again when the topic is created, because another broker
    may have created it with another configuration."""
    world = CoordinatorWorld()
    assert world.coordinator.partition_for(GROUP) == 0
    world.partition_count = 50
    image = MetadataImage(topics={"__consumer_offsets": TopicImage("__consumer_offsets", TopicId(TOPIC_ID), ())})
    world.coordinator.on_metadata_update(EMPTY_IMAGE, image)
    assert world.coordinator.partition_for(GROUP) != 0


def test_stop_lets_everybody_go() -> None:
    """`stop` answers waiting requests with NOT_COORDINATOR, and later ones with COORDINATOR_NOT_AVAILABLE."""
    world = CoordinatorWorld()
    parked = world.join(world.now(world.join()).member_id)
    world.coordinator.stop()
    assert world.now(parked).error_code == ErrorCode.NOT_COORDINATOR
    assert world.commit_code(1) is ErrorCode.COORDINATOR_NOT_AVAILABLE


# Time


def test_silent_member_is_dropped_by_the_clock() -> None:
    """A member that misses its session timeout is removed, and the group rebalances."""
    world = CoordinatorWorld()
    ids = world.stable_group(session_timeout_ms=6000)
    world.timers.advance(5000)
    world.heartbeat(ids[0], 1)
    world.timers.advance(1000)
    assert world.heartbeat(ids[0], 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(ids[1], 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_stalled_broker_does_not_drop_its_members() -> None:
    """A broker that is stopped (SIGSTOP) beyond the session timeout keeps its members: heartbeats wait in sockets."""
    world = CoordinatorWorld()
    ids = world.stable_group(session_timeout_ms=6000)
    world.timers.stall(60_000)
    assert [world.heartbeat(member_id, 1) for member_id in ids] == [ErrorCode.NONE] * 2


def test_clock_that_jumps_does_not_drop_members() -> None:
    """A jump of the wall clock removes no member: it changes timestamps, but deadlines use the monotonic clock."""
    world = CoordinatorWorld()
    ids = world.stable_group(session_timeout_ms=6000)
    for jump in (3_600_000, -7_200_000):
        world.timers.wall_clock_offset_ms += jump
        world.timers.advance(2000)
        assert [world.heartbeat(member_id, 1) for member_id in ids] == [ErrorCode.NONE] * 2


def test_partitions_are_independent() -> None:
    """A group belongs to one partition of `__consumer_offsets`, and its answers wait for that partition only."""
    world = CoordinatorWorld(partitions=3)
    by_partition: dict[PartitionIndex, str] = {}
    for index in range(20):
        by_partition.setdefault(world.coordinator.partition_for(f"g{index}"), f"g{index}")
    assert len(by_partition) == 3
    world.log.holds_high_watermark = True
    answers = {partition: world.commit(1, group_id=group) for partition, group in by_partition.items()}
    world.log.commit(PartitionIndex(1))
    assert [world.is_waiting(answers[partition]) for partition in world.partitions] == [True, False, True]
    assert TOPIC_ID in bytes(world.log.records(PartitionIndex(1))[0].value or b"")


def test_what_was_written_is_told_once_though_the_replicas_did_not_follow_in_time() -> None:
    """A leave that commits after its timeout fails for the client, but its event is published once."""
    world = CoordinatorWorld(config=GroupCoordinatorConfig(initial_rebalance_delay_ms=0))
    (member_id,) = world.stable_group(1)
    world.events.clear()
    world.log.holds_high_watermark = True
    leave = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=member_id)])
    answer = world.coordinator.leave_group(leave, world.client(5))
    assert world.is_waiting(answer)
    assert world.events == []
    world.timers.advance(5_000)
    assert world.now(answer).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.commit(P0)
    world.timers.advance(5_000)
    assert len([event for event in world.events if isinstance(event, NewEpoch)]) == 1
