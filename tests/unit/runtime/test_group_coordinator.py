"""Tests the coordinator's facade: its own checks, and requests that concern several partitions."""

from __future__ import annotations

from typing import cast

import pytest
from tests.unit.runtime.coordinator_world import GROUP, P0, TOPIC_ID, CoordinatorWorld

from klamm.metadata.image import MetadataImage, TopicImage
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.types import PartitionIndex, TopicId

GROUPS = [f"group-{index}" for index in range(12)]


@pytest.fixture
def world() -> CoordinatorWorld:
    """Returns a coordinator with twelve simple groups on five partitions."""
    world = CoordinatorWorld(partitions=5)
    for index, group_id in enumerate(GROUPS):
        assert world.commit_code(index, group_id=group_id) is ErrorCode.NONE
    return world


def test_empty_group_id_is_refused_where_members_are_involved() -> None:
    """An empty group id is refused for requests of members; offsets may be stored under it, as old consumers do."""
    world = CoordinatorWorld()
    assert world.now(world.join(group_id="")).error_code == ErrorCode.INVALID_GROUP_ID
    assert world.now(world.sync("m", 1, group_id="")).error_code == ErrorCode.INVALID_GROUP_ID
    assert world.heartbeat("m", 1, group_id="") is ErrorCode.INVALID_GROUP_ID
    assert world.commit_code(3, group_id="") is ErrorCode.NONE
    assert world.fetched(group_id="") == 3


@pytest.mark.parametrize(
    ("session_timeout_ms", "code"),
    [
        (5999, ErrorCode.INVALID_SESSION_TIMEOUT),
        (6000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_000, ErrorCode.MEMBER_ID_REQUIRED),
        (1_800_001, ErrorCode.INVALID_SESSION_TIMEOUT),
    ],
)
def test_session_timeout_has_bounds(session_timeout_ms: int, code: ErrorCode) -> None:
    """Session timeouts are valid from `group.min.session.timeout.ms` to `group.max.session.timeout.ms`, inclusive."""
    world = CoordinatorWorld()
    assert world.now(world.join(session_timeout_ms=session_timeout_ms)).error_code == code


def test_nothing_is_answered_from_an_old_state() -> None:
    """A broker whose session with the metadata store may be over answers NOT_COORDINATOR, also to requests that only
    read: another broker may have acknowledged a newer commit. When the session is certain again, it answers."""
    world = CoordinatorWorld()
    first, _ = world.stable_group()
    assert world.commit_code(5, group_id="simple") == ErrorCode.NONE
    world.has_session = False
    assert world.heartbeat(first, 1) == ErrorCode.NOT_COORDINATOR
    assert world.commit_code(6, group_id="simple") == ErrorCode.NOT_COORDINATOR
    assert world.now(world.fetch(group_id="simple")).error_code == ErrorCode.NOT_COORDINATOR
    world.has_session = True
    assert world.now(world.fetch(group_id="simple")).topics[0].partitions[0].committed_offset == 5
    assert world.heartbeat(first, 1) == ErrorCode.NONE


def test_unknown_group_is_left_by_unknown_members() -> None:
    """LeaveGroup for an unknown group gives each member an error, and none for the whole request."""
    world = CoordinatorWorld()
    request = LeaveGroupRequest(group_id="ghost", members=[MemberIdentity(member_id="m", group_instance_id="i")])
    answer = world.now(world.coordinator.leave_group(request, world.client(5)))
    assert answer.error_code == ErrorCode.NONE
    (member,) = answer.members
    assert (member.member_id, member.group_instance_id) == ("m", "i")
    assert member.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_groups_of_all_partitions_are_listed(world: CoordinatorWorld) -> None:
    """ListGroups returns the groups of all partitions that the broker leads, and not those of a resigned partition."""
    answer = world.now(world.coordinator.list_groups(ListGroupsRequest(), world.client(5)))
    assert {group.group_id for group in answer.groups} == set(GROUPS)
    world.coordinator.on_resignation(PartitionIndex(2))
    answer = world.now(world.coordinator.list_groups(ListGroupsRequest(), world.client(5)))
    assert {group.group_id for group in answer.groups} == {
        group_id for group_id in GROUPS if world.coordinator.partition_for(group_id) != 2
    }


def test_groups_on_several_partitions_are_described(world: CoordinatorWorld) -> None:
    """Groups on several partitions are described in one answer."""
    request = DescribeGroupsRequest(groups=[*GROUPS, "ghost"])
    answer = world.now(world.coordinator.describe_groups(request, world.client(6)))
    states = {group.group_id: group.group_state for group in answer.groups}
    assert states == dict.fromkeys(GROUPS, "Empty") | {"ghost": "Dead"}


def test_groups_on_several_partitions_are_deleted(world: CoordinatorWorld) -> None:
    """DeleteGroups gives each group its own error; groups of a partition that is not led get NOT_COORDINATOR."""
    world.coordinator.on_resignation(PartitionIndex(2))
    request = DeleteGroupsRequest(groups_names=[*GROUPS, "ghost"])
    answer = world.now(world.coordinator.delete_groups(request, world.client(2)))
    codes = {result.group_id: result.error_code for result in answer.results}
    for group_id in GROUPS:
        elsewhere = world.coordinator.partition_for(group_id) == 2
        assert codes[group_id] == (ErrorCode.NOT_COORDINATOR if elsewhere else ErrorCode.NONE)


def test_answer_of_several_partitions_waits_for_the_last(world: CoordinatorWorld) -> None:
    """An answer about several partitions waits for the last commit, because it must not show data that may be lost."""
    world.log.holds_high_watermark = True
    world.commit(99, group_id=GROUPS[0])
    pending = world.coordinator.describe_groups(DescribeGroupsRequest(groups=GROUPS), world.client(6))
    waiting = cast(object, pending).__await__()  # type: ignore[attr-defined]
    assert next(waiting) is None
    world.log.commit(world.coordinator.partition_for(GROUPS[0]))
    with pytest.raises(StopIteration) as finished:
        next(waiting)
    assert len(finished.value.value.groups) == len(GROUPS)


def test_deleted_topic_takes_its_offsets_with_it(world: CoordinatorWorld) -> None:
    """The deletion of a topic deletes its offsets on every partition, and no offsets of other topics."""
    topic = TopicImage("events", TopicId(TOPIC_ID), ())
    kept = TopicImage("audit", TopicId(bytes(16)), ())
    world.commit(5, group_id=GROUPS[0], topic="audit")
    old = MetadataImage(topics_by_id={topic.topic_id: topic, kept.topic_id: kept})
    new = MetadataImage(topics_by_id={kept.topic_id: kept})
    world.coordinator.on_metadata_update(old, new)
    world.timers.advance(0)
    assert [world.fetched(group_id=group_id) for group_id in GROUPS] == [-1] * len(GROUPS)
    assert world.fetched(group_id=GROUPS[0], topic="audit") == 5


def test_group_is_found_on_the_partition_that_kafka_would_choose() -> None:
    """A group is on the partition that Kafka would choose, because clients ask the leader of that partition."""
    world = CoordinatorWorld(partitions=50)
    assert world.coordinator.partition_for("my-group-42") == 172739469 % 50
    assert world.coordinator.partition_for("polygenelubricants") == P0
    assert world.coordinator.partition_for(GROUP) == world.coordinator.partition_for(GROUP)
