"""ListGroups and DescribeGroups."""

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
    """States by group id."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    answer = cast(ListGroupsResponse, driver.answers[driver.ask(GroupShard.handle_list_groups, request, 5)])
    assert {group.group_type for group in answer.groups} <= {"classic"}
    return {group.group_id: group.group_state for group in answer.groups}


def described(driver: ShardDriver, group_id: str = GROUP, version: int = 6) -> DescribedGroup:
    """One group."""
    request = DescribeGroupsRequest(groups=[group_id])
    answer = driver.answers[driver.ask(GroupShard.handle_describe_groups, request, version)]
    return cast(DescribeGroupsResponse, answer).groups[0]


def test_a_rebalance_waits_for_who_has_not_joined_again_and_then_for_the_leader() -> None:
    """Also for who has just got a member id and must come back with it."""
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
    """Simple groups too, and groups that nobody has asked for since the log was read."""
    driver = ShardDriver()
    driver.stable_group()
    driver.commit(1, group_id="simple")
    assert listed(driver) == {GROUP: "Stable", "simple": "Empty"}
    assert listed(driver.reload()) == {GROUP: "Stable", "simple": "Empty"}


def test_list_can_be_filtered_by_state_and_type() -> None:
    """In any letter case; a state or type that does not exist lists nothing."""
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
    """Protocol, metadata and assignments are settled."""
    driver = ShardDriver()
    ids = driver.stable_group(client_id="app")
    group = described(driver)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert [member.member_id for member in group.members] == ids
    member = group.members[0]
    assert (member.client_id, member.client_host, member.group_instance_id) == ("app", "/10.0.0.1", None)
    assert (member.member_metadata, member.member_assignment) == (subscription("events"), ids[0].encode())


def test_gathering_group_is_described_without_protocol() -> None:
    """Nothing is settled; the members are known."""
    driver = ShardDriver()
    ids = driver.stable_group()
    driver.join(ids[0])
    group = described(driver)
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [member.member_metadata for member in group.members] == [b"", b""]


def test_unknown_group_is_dead() -> None:
    """And, from version 6 on, an error with a message (KIP-1043)."""
    driver = ShardDriver()
    old = described(driver, "ghost", version=5)
    assert (old.group_state, old.error_code, old.error_message) == ("Dead", 0, None)
    new = described(driver, "ghost", version=6)
    assert (new.group_state, new.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert new.error_message == "Group ghost not found."
