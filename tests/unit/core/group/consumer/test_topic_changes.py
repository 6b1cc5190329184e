"""Tests of topic changes in the cluster, and of the rebalances that they cause in consumer groups."""

from __future__ import annotations

from tests.unit.core.group.consumer.consumer_driver import EVENTS, GROUP, ConsumerDriver, owned
from tests.unit.core.group.painted_topics import PaintedTopics

from klamm.core.group.consumer.group_state import ConsumerGroupState
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.events import Cause, RebalanceNeeded
from klamm.core.group.shard import GroupShard
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest


def causes(driver: ConsumerDriver) -> list[tuple[Cause, str | None, str]]:
    return [(event.cause, event.member_id, event.detail) for event in driver.happened(RebalanceNeeded)]


def test_partitions_that_are_added_are_assigned() -> None:
    """New partitions are assigned with the next heartbeat of any member."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.paint(PaintedTopics(2, events=8))
    answer = driver.beat("a", 2)
    assert (answer.epoch, answer.assigned) == (3, {EVENTS: [0, 1, 2, 3, 4, 5, 6, 7]})
    detail = "topic events has 8 partitions instead of 6"
    assert causes(driver)[-1] == (Cause.PARTITIONS_ADDED, None, detail)


def test_topic_that_is_deleted_is_taken_away() -> None:
    """A deleted topic loses its assignments, and a topic that is created again under its name is a new topic."""
    driver = ConsumerDriver()
    driver.enter("a", names=[EVENTS, "audit"])
    driver.paint(PaintedTopics(2, events=6))
    answer = driver.beat("a", 2, topic_partitions=owned(events=range(6)))
    assert (answer.epoch, answer.assigned) == (3, {EVENTS: [0, 1, 2, 3, 4, 5]})
    assert causes(driver)[-1][0] is Cause.TOPIC_DELETED
    driver.paint(PaintedTopics(3, incarnations={"audit": 1}, events=6, audit=1))
    answer = driver.beat("a", 3)
    assert answer.assigned == {EVENTS: [0, 1, 2, 3, 4, 5], "audit": [0]}
    assert causes(driver)[-1][0] is Cause.TOPIC_CREATED


def test_topic_that_was_waited_for_comes() -> None:
    """A member that subscribed to a topic before its creation gets the partitions after the creation."""
    driver = ConsumerDriver()
    driver.enter("a", names=["later"])
    driver.paint(PaintedTopics(2, later=1))
    assert driver.beat("a", 2).assigned == {"later": [0]}


def test_change_of_a_topic_that_is_not_read_concerns_nobody() -> None:
    """A change of a topic without a subscription does not affect the group."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.beat("a", 2)
    driver.paint(PaintedTopics(2, events=6, audit=9, other=3))
    assert driver.shard.consumer_groups.outdated == {}
    assert driver.beat("a", 2).epoch == 2


def test_change_that_is_undone_before_anybody_looked_changes_nothing() -> None:
    """A topic change that is undone before the next heartbeat has no effect, because the topic hash is equal."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.paint(PaintedTopics(2, audit=2))
    driver.paint(PaintedTopics(3, events=6, audit=2))
    written = len(driver.log)
    assert driver.beat("a", 2).epoch == 2
    assert len(driver.log) == written
    assert driver.shard.consumer_groups.outdated == {}


def test_topics_are_compared_after_a_restart() -> None:
    """A new coordinator compares the topics with those of the last epoch, because they may have changed meanwhile."""
    driver = ConsumerDriver()
    driver.enter("a")
    same = driver.reload()
    assert same.beat("a", 2).epoch == 2
    driver.topics = PaintedTopics(2, events=7)
    grown = driver.reload()
    assert grown.beat("a", 2).assigned == {EVENTS: list(range(7))}
    assert causes(grown)[-1][0] is Cause.COORDINATOR_MOVED


def test_replicas_in_other_racks_are_a_change() -> None:
    """Replicas that move to other racks raise the epoch, because assignments may depend on racks."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.paint(PaintedTopics(2, "r", events=6, audit=2))
    assert driver.beat("a", 2).epoch == 3
    assert causes(driver)[-1][2] == "replicas of topic events are in other racks"


def test_every_change_since_the_last_epoch_is_a_cause() -> None:
    """A new epoch has all topic changes since the last epoch as causes, in their order."""
    driver = ConsumerDriver()
    driver.enter("a", names=[EVENTS, "audit"])
    driver.paint(PaintedTopics(2, events=8, audit=2))
    driver.paint(PaintedTopics(3, events=8))
    driver.beat("a", 2)
    assert [cause for cause, _, _ in causes(driver)[-2:]] == [Cause.PARTITIONS_ADDED, Cause.TOPIC_DELETED]


def test_refused_epoch_is_tried_again() -> None:
    """A new epoch that the log refuses is tried again with the next heartbeat."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.paint(PaintedTopics(2, events=8))
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert driver.maybe_beat("a", 2) is ErrorCode.NOT_ENOUGH_REPLICAS
    driver.append_error = None
    assert driver.beat("a", 2).epoch == 3


def test_only_groups_of_the_topic_look() -> None:
    """A topic change marks only the groups that subscribe to the topic."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.enter("b", group_id="other", names=["audit"])
    driver.paint(PaintedTopics(2, events=6, audit=3))
    assert driver.shard.consumer_groups.outdated.keys() == {"other"}
    assert driver.consumer_state() is ConsumerGroupState.STABLE
    assert GROUP not in driver.shard.consumer_groups.outdated


def test_very_many_groups_are_marked_in_steps() -> None:
    """Many groups are marked in steps, between which heartbeats may come; all groups react in the end."""
    driver = ConsumerDriver(GroupCoordinatorConfig(looks_per_step=3))
    groups = [f"group-{index}" for index in range(10)]
    for group_id in groups:
        driver.enter("a", group_id=group_id)
    driver.apply(driver.shard.on_metadata_update(PaintedTopics(2, events=7, audit=2), (), driver.now))
    driver.step_chores()
    assert 0 < len(driver.shard.consumer_groups.outdated) <= 3
    epochs = {group_id: driver.beat("a", 2, group_id=group_id).epoch for group_id in groups}
    assert set(epochs.values()) == {2, 3}
    driver.do_chores()
    assert {driver.beat("a", epochs[group_id], group_id=group_id).epoch for group_id in groups} == {3}
    assert driver.shard.consumer_groups.outdated == {}


def test_group_that_goes_before_it_is_marked_leaves_no_mark() -> None:
    """A group that is deleted before its step leaves no mark behind."""
    driver = ConsumerDriver(GroupCoordinatorConfig(looks_per_step=2))
    driver.enter("a", group_id="first")
    driver.enter("a", group_id="second")
    driver.apply(driver.shard.on_metadata_update(PaintedTopics(2, events=7, audit=2), (), driver.now))
    driver.step_chores()
    for group_id in ("first", "second"):
        driver.beat("a", -1, group_id=group_id)
        request = DeleteGroupsRequest(groups_names=[group_id])
        driver.ask(GroupShard.handle_delete_groups, request, 2)
    driver.do_chores()
    assert driver.shard.consumer_groups.store.groups == {}
    assert driver.shard.consumer_groups.outdated == {}
