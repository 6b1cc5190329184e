"""Tests of ConsumerGroupDescribe, and of DescribeGroups and ListGroups for consumer groups."""

from __future__ import annotations

from typing import cast

from tests.unit.core.group.classic.test_group_description import described
from tests.unit.core.group.consumer.consumer_driver import EVENTS, GROUP, ConsumerDriver
from tests.unit.core.group.painted_topics import PaintedTopics

from klamm.core.group.shard import GroupShard
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.consumer_group_describe_response import Assignment
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListGroupsResponse


def partitions(assignment: Assignment) -> dict[str, list[int]]:
    return {topic.topic_name: list(topic.partitions) for topic in assignment.topic_partitions}


def test_group_is_described_on_its_way() -> None:
    """A reconciling group is described with current assignments, pending revocations included, and with its target."""
    driver = ConsumerDriver()
    driver.enter("a", instance="pod", rack_id="r", client_id="app")
    driver.enter("b")
    driver.beat("a", 2, instance_id="pod", client_id="app")
    group = driver.described()
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("Reconciling", 3, 3)
    assert group.assignor_name == "uniform"
    one, other = group.members
    assert (one.member_id, one.instance_id, one.rack_id, one.member_epoch) == ("a", "pod", "r", 2)
    assert (one.client_id, one.client_host, one.member_type) == ("app", "/10.0.0.1", 1)
    assert (one.subscribed_topic_names, one.subscribed_topic_regex) == ([EVENTS], "")
    assert partitions(one.assignment) == {EVENTS: [0, 1, 2, 3, 4, 5]}
    assert partitions(one.target_assignment) == {EVENTS: [0, 1, 2]}
    assert (other.member_id, partitions(other.assignment)) == ("b", {})
    assert partitions(other.target_assignment) == {EVENTS: [3, 4, 5]}


def test_topics_that_are_gone_are_left_out() -> None:
    """The description leaves out deleted topics, because they have no name any more."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.paint(PaintedTopics(2))
    assert partitions(driver.described().members[0].assignment) == {}


def test_states_are_told() -> None:
    """The description has the state of the group by its name in the protocol."""
    driver = ConsumerDriver()
    driver.enter("a")
    assert driver.described().group_state == "Stable"
    driver.enter("b")
    assert driver.described().group_state == "Reconciling"
    driver.go("b")
    assert driver.described().group_state == "Assigning"
    driver.go("a")
    assert driver.described().group_state == "Empty"


def test_what_is_no_consumer_group_is_not_found() -> None:
    """ConsumerGroupDescribe answers GROUP_ID_NOT_FOUND for an unknown group and for a classic group."""
    driver = ConsumerDriver()
    driver.commit(1)
    for group_id, words in ((GROUP, "is not a consumer group."), ("ghost", "not found.")):
        group = driver.described(group_id)
        assert (group.error_code, group.error_message) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            f"Group {group_id} {words}",
        )


def test_consumer_group_is_no_classic_group() -> None:
    """DescribeGroups describes a consumer group as Dead, and gives the reason in versions with an error message."""
    driver = ConsumerDriver()
    driver.enter("a")
    group = described(driver)
    assert (group.group_state, group.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert group.error_message == f"Group {GROUP} is not a classic group."
    old = described(driver, version=5)
    assert (old.group_state, old.error_code) == ("Dead", 0)


def test_groups_of_both_types_are_listed() -> None:
    """ListGroups returns groups of both types with type and state, and can filter by both."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.commit(1, group_id="simple")

    def listed(states: list[str], types: list[str]) -> set[tuple[str, str, str, str]]:
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        answer = cast(ListGroupsResponse, driver.answers[driver.ask(GroupShard.handle_list_groups, request, 5)])
        return {(each.group_id, each.group_type, each.group_state, each.protocol_type) for each in answer.groups}

    consumer, classic = (GROUP, "consumer", "Stable", "consumer"), ("simple", "classic", "Empty", "")
    assert listed([], []) == {consumer, classic}
    assert listed([], ["CONSUMER"]) == {consumer}
    assert listed(["stable"], []) == {consumer}
    assert listed(["Assigning"], ["consumer"]) == set()
