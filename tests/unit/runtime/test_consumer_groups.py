"""Tests consumer groups through the coordinator's facade: its own checks, and the life of a group on a log."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.runtime.coordinator_world import GROUP, P0, CoordinatorWorld

from klamm.core.group.events import MemberRemoved
from klamm.metadata.image import MetadataImage, PartitionImage, TopicImage
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from klamm.protocol.schema.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId

TOPIC_ID = TopicId(bytes([7]) * 16)
NO_IMAGE = MetadataImage()


def image(partitions: int, revision: int = 1) -> MetadataImage:
    """Returns a cluster with one topic."""
    broker = BrokerId(0)
    topic = TopicImage(
        "events",
        TOPIC_ID,
        tuple(
            PartitionImage(PartitionIndex(index), broker, LeaderEpoch(0), (broker,), (broker,))
            for index in range(partitions)
        ),
    )
    return MetadataImage(revision=revision, topics={"events": topic}, topics_by_id={TOPIC_ID: topic})


def beat(world: CoordinatorWorld, member_id: str, epoch: int, version: int = 1, **fields: Any) -> Any:
    fields.setdefault("group_id", GROUP)
    request = ConsumerGroupHeartbeatRequest(member_id=member_id, member_epoch=epoch, **fields)
    return world.coordinator.consumer_group_heartbeat(request, world.client(version))


def enter(world: CoordinatorWorld, member_id: str, **fields: Any) -> ConsumerGroupHeartbeatResponse:
    joining: dict[str, Any] = {
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["events"],
        "topic_partitions": [],
    }
    answer: ConsumerGroupHeartbeatResponse = world.now(beat(world, member_id, 0, **(joining | fields)))
    return answer


def assigned(response: ConsumerGroupHeartbeatResponse) -> list[int] | None:
    if response.assignment is None:
        return None
    return [index for topic in response.assignment.topic_partitions for index in topic.partitions]


def owned(*partitions: int) -> list[TopicPartitions]:
    return [TopicPartitions(topic_id=TOPIC_ID, partitions=list(partitions))]


@pytest.fixture
def world() -> CoordinatorWorld:
    """Returns a coordinator in a cluster with one topic of four partitions."""
    world = CoordinatorWorld()
    world.coordinator.on_metadata_update(NO_IMAGE, image(4))
    return world


@pytest.mark.parametrize(
    ("fields", "version", "words"),
    [
        ({"member_id": ""}, 1, "MemberId can't be empty."),
        ({"member_id": " ", "epoch": 1}, 0, "MemberId can't be empty."),
        ({"member_id": "", "epoch": -1}, 0, "MemberId can't be empty."),
        ({"group_id": " "}, 1, "GroupId can't be empty."),
        ({"instance_id": ""}, 1, "InstanceId can't be empty."),
        ({"rack_id": " "}, 1, "RackId can't be empty."),
        ({"rebalance_timeout_ms": -1}, 1, "RebalanceTimeoutMs must be provided in first request."),
        ({"topic_partitions": None}, 1, "TopicPartitions must be empty when (re-)joining."),
        ({"topic_partitions": owned(1)}, 1, "TopicPartitions must be empty when (re-)joining."),
        (
            {"subscribed_topic_names": None},
            1,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"epoch": -2}, 1, "InstanceId can't be null."),
        ({"epoch": -3}, 1, "MemberEpoch is invalid."),
    ],
)
def test_request_that_makes_no_sense_is_refused(
    world: CoordinatorWorld, fields: dict[str, Any], version: int, words: str
) -> None:
    """An invalid heartbeat is refused with INVALID_REQUEST and Kafka's error message."""
    request: dict[str, Any] = {
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": ["events"],
        "topic_partitions": [],
        **fields,
    }
    member_id, epoch = request.pop("member_id", "a"), request.pop("epoch", 0)
    answer = world.now(beat(world, member_id, epoch, version, **request))
    assert (answer.error_code, answer.error_message) == (ErrorCode.INVALID_REQUEST, words)


def test_unknown_assignor_is_refused(world: CoordinatorWorld) -> None:
    """An unknown assignor is refused, and the error message lists the supported assignors."""
    answer = enter(world, "a", server_assignor="magic")
    assert answer.error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert answer.error_message is not None
    assert answer.error_message.startswith("ServerAssignor magic is not supported. Supported assignors: uniform, range")
    assert enter(world, "a", server_assignor="range").error_code == ErrorCode.NONE


def test_coordinator_that_is_not_there_says_so(world: CoordinatorWorld) -> None:
    """A coordinator without leadership answers NOT_COORDINATOR; a stopped one answers COORDINATOR_NOT_AVAILABLE."""
    other = CoordinatorWorld(is_loaded=False)
    other.coordinator.on_resignation(P0)
    assert enter(other, "a").error_code == ErrorCode.NOT_COORDINATOR
    other.coordinator.stop()
    assert enter(other, "a").error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    described = other.now(
        other.coordinator.consumer_group_describe(ConsumerGroupDescribeRequest(group_ids=["a"]), other.client(1))
    )
    assert [group.error_code for group in described.groups] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]


def test_group_lives_on_a_log_of_bytes(world: CoordinatorWorld) -> None:
    """A group shares its partitions through joins, a restart of the coordinator, a lost member and new partitions."""
    assert assigned(enter(world, "a")) == [0, 1, 2, 3]
    world.timers.advance(1000)
    assert assigned(enter(world, "b")) == []
    asked = world.now(beat(world, "a", 2, topic_partitions=owned(0, 1, 2, 3)))
    kept = assigned(asked)
    assert kept is not None
    assert len(kept) == 2
    assert world.now(beat(world, "a", 2, topic_partitions=owned(*kept))).member_epoch == 3
    got = assigned(world.now(beat(world, "b", 3)))
    assert got is not None
    assert sorted(kept + got) == [0, 1, 2, 3]

    again = world.restart()
    again.coordinator.on_metadata_update(NO_IMAGE, image(4))
    assert again.now(beat(again, "a", 3)).error_code == ErrorCode.NONE
    again.timers.advance(44_000)
    again.now(beat(again, "a", 3))
    again.timers.advance(2_000)
    assert sorted(assigned(again.now(beat(again, "a", 3))) or []) == [0, 1, 2, 3]
    again.coordinator.on_metadata_update(image(4), image(6, 2))
    again.timers.advance(1000)
    assert sorted(assigned(again.now(beat(again, "a", 4))) or []) == [0, 1, 2, 3, 4, 5]


def test_groups_are_described_over_partitions() -> None:
    """Groups on several partitions are described together; a group without a name gets an error of its own."""
    world = CoordinatorWorld(partitions=5)
    world.coordinator.on_metadata_update(NO_IMAGE, image(1))
    names = [f"group-{index}" for index in range(8)]
    for name in names:
        enter(world, "a", group_id=name)
    request = ConsumerGroupDescribeRequest(group_ids=["", *names, "ghost"])
    answer = world.now(world.coordinator.consumer_group_describe(request, world.client(1)))
    states = {group.group_id: (group.error_code, group.group_state) for group in answer.groups}
    assert states == {
        "": (ErrorCode.INVALID_GROUP_ID, ""),
        "ghost": (ErrorCode.GROUP_ID_NOT_FOUND, ""),
        **dict.fromkeys(names, (ErrorCode.NONE, "Stable")),
    }


def test_regular_expression_is_resolved_by_the_executor(world: CoordinatorWorld) -> None:
    """The executor resolves a regular expression, and the member's next heartbeat brings the matching partitions."""
    joined = enter(world, "a", subscribed_topic_names=None, subscribed_topic_regex="ev.*")
    assert (joined.member_epoch, assigned(joined)) == (1, [])
    world.timers.advance(1000)
    assert assigned(world.now(beat(world, "a", 1))) == [0, 1, 2, 3]


def test_answer_waits_for_the_log(world: CoordinatorWorld) -> None:
    """The answer to a join waits until its records are committed, and so does a later heartbeat that writes nothing."""
    enter(world, "a")
    world.log.holds_high_watermark = True
    joining = beat(world, "b", 0, rebalance_timeout_ms=1, subscribed_topic_names=["events"], topic_partitions=[])
    quiet = beat(world, "a", 2)
    assert world.is_waiting(joining)
    assert world.is_waiting(quiet)
    world.log.commit(P0)
    assert world.now(joining).error_code == ErrorCode.NONE
    assert world.now(quiet).error_code == ErrorCode.NONE


def test_look_at_topics_that_are_as_they_were_is_the_only_one(world: CoordinatorWorld) -> None:
    """A coordinator that takes a group over checks the group's topics once, even if they have not changed."""
    enter(world, "a")
    again = world.restart()
    again.coordinator.on_metadata_update(NO_IMAGE, image(4))
    groups = again.shard().consumer_groups
    assert GROUP in groups.outdated
    assert again.now(beat(again, "a", 2)).error_code == ErrorCode.NONE
    assert GROUP not in groups.outdated


def test_removal_that_is_written_but_late_does_not_cost_the_member_that_came_back(world: CoordinatorWorld) -> None:
    """I15: a member that rejoins before its removal is committed is not removed again when that commit times out."""
    enter(world, "a")
    world.log.holds_high_watermark = True
    world.timers.advance(46_000)
    assert "a" not in world.shard().consumer_groups.store.groups[GROUP].members
    back = beat(world, "a", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["events"], topic_partitions=[])
    world.timers.advance(9_000)
    assert world.now(back).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert "a" in world.shard().consumer_groups.store.groups[GROUP].members
    removals = [event for event in world.events if isinstance(event, MemberRemoved)]
    assert [removal.member_id for removal in removals] == ["a"], "what was written is told of, and once"
