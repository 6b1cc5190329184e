"""Tests of ListGroups and DescribeGroups for classic groups."""

from __future__ import annotations

from typing import cast

from tests.unit.core.group.shard_driver import GROUP, ShardDriver, subscription

from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.shard import GroupShard
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.list_groups_response import ListGroupsResponse


def listed(driver: ShardDriver, *, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> dict[str, str]:
    """Returns the states of the listed groups by group id."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    answer = cast(ListGroupsResponse, driver.answers[driver.ask(GroupShard.handle_list_groups, request, 5)])
    assert {group.group_type for group in answer.groups} <= {"classic"}
    return {group.group_id: group.group_state for group in answer.groups}


def described(driver: ShardDriver, group_id: str = GROUP, version: int = 6) -> DescribedGroup:
    """Returns the description of one group."""
    request = DescribeGroupsRequest(groups=[group_id])
    answer = driver.answers[driver.ask(GroupShard.handle_describe_groups, request, version)]
    return cast(DescribeGroupsResponse, answer).groups[0]


def test_a_rebalance_waits_for_who_has_not_joined_again_and_then_for_the_leader() -> None:
    """A rebalance waits for members that have not joined again, for pending member ids, and then for the leader."""
    driver = ShardDriver()
    one, two = driver.stable_group()
    assert driver.group().awaited() == []
    driver.join(two, protocols=[("range", subscription("others"))])
    newcomer = driver.member_id()
    assert driver.group().awaited() == [one, newcomer]
    driver.join(newcomer)
    assert driver.group().awaited() == [one]
    driver.join(one)
    assert driver.state() is GroupState.COMPLETING_REBALANCE
    assert driver.group().awaited() == [one]
    driver.sync(two, 2)
    assert driver.group().awaited() == [one]
    driver.sync(one, 2)
    assert driver.group().awaited() == []


def test_list_has_every_group_with_its_state() -> None:
    """ListGroups returns every group with its state, including simple groups, also after a reload from the log."""
    driver = ShardDriver()
    driver.stable_group()
    driver.commit(1, group_id="simple")
    assert listed(driver) == {GROUP: "Stable", "simple": "Empty"}
    assert listed(driver.reload()) == {GROUP: "Stable", "simple": "Empty"}


def test_list_can_be_filtered_by_state_and_type() -> None:
    """The filters by state and type ignore letter case; a state that does not exist matches no group."""
    driver = ShardDriver()
    ids = driver.stable_group()
    driver.commit(1, group_id="simple")
    driver.join(ids[0])
    assert listed(driver, states=("preparingREBALANCE",)) == {GROUP: "PreparingRebalance"}
    assert listed(driver, states=(" Empty ", "Stable")) == {"simple": "Empty"}
    assert listed(driver, states=("nonsense",)) == {}
    assert listed(driver, types=("Classic",)).keys() == {GROUP, "simple"}
    assert listed(driver, types=("consumer", "nonsense")) == {}


def test_stable_group_is_described_in_full() -> None:
    """The description of a stable group has its protocol, and the metadata and assignments of its members."""
    driver = ShardDriver()
    ids = driver.stable_group(client_id="app")
    group = described(driver)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert [member.member_id for member in group.members] == ids
    member = group.members[0]
    assert (member.client_id, member.client_host, member.group_instance_id) == ("app", "/10.0.0.1", None)
    assert (member.member_metadata, member.member_assignment) == (subscription("events"), ids[0].encode())


def test_gathering_group_is_described_without_protocol() -> None:
    """The description of a group in PreparingRebalance lists the members, without protocol and metadata."""
    driver = ShardDriver()
    ids = driver.stable_group()
    driver.join(ids[0])
    group = described(driver)
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_metadata for member in group.members] == [b"", b""]


def test_unknown_group_is_dead() -> None:
    """An unknown group is described as Dead, from version 6 on with an error code and a message (KIP-1043)."""
    driver = ShardDriver()
    old = described(driver, "ghost", version=5)
    assert (old.group_state, old.error_code, old.error_message) == ("Dead", 0, None)
    new = described(driver, "ghost", version=6)
    assert (new.group_state, new.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert new.error_message == "Group ghost not found."
