"""Tests FindCoordinator, ListGroups, DescribeGroups and DeleteGroups in every version that clients send."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.handlers.group_broker import GroupBroker, topic, travelled, versions_of

from klamm.broker.handlers import delete_groups, describe_groups, find_coordinator, list_groups
from klamm.broker.handlers.shared.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.types import BrokerId, TopicId

GROUP = "orders"


def find(broker: GroupBroker, version: int, *keys: str) -> Any:
    """Sends FindCoordinator for groups, and returns the first coordinator from the place that the version uses."""
    request = (
        FindCoordinatorRequest(coordinator_keys=list(keys)) if version >= 4 else FindCoordinatorRequest(key=keys[0])
    )
    response = broker.ask(find_coordinator, request, version)
    return response.coordinators[0] if version >= 4 else response


@pytest.mark.parametrize("version", versions_of(ApiKey.FIND_COORDINATOR))
def test_coordinator_is_found_in_every_version(version: int) -> None:
    """The coordinator is the leader of the group's partition, under the address that the client reached."""
    found = find(GroupBroker(), version, GROUP)
    assert (found.error_code, found.node_id, found.host, found.port) == (ErrorCode.NONE, 1, "reached", 1234)


def test_success_has_the_message_that_kafka_sends() -> None:
    """A successful answer has the message NONE in versions 1 to 3, and an empty message in later versions."""
    assert find(GroupBroker(), 3, GROUP).error_message == "NONE"
    assert find(GroupBroker(), 4, GROUP).error_message == ""


def test_several_coordinators_are_found_at_once() -> None:
    """Several coordinators are found in one request, in the order of the keys (KIP-699)."""
    broker = GroupBroker()
    request = FindCoordinatorRequest(coordinator_keys=["a", "b", "a"])
    response = broker.ask(find_coordinator, request, 6)
    assert [coordinator.key for coordinator in response.coordinators] == ["a", "b", "a"]


@pytest.mark.parametrize("version", [0, 6])
def test_offsets_topic_is_created_for_the_first_who_asks(version: int) -> None:
    """The first request creates the offsets topic, and the answer waits for the topic: an error would cost new
    clients a back-off."""
    broker = GroupBroker(has_offsets_topic=False)
    assert find(broker, version, GROUP).error_code == ErrorCode.NONE
    assert broker.created == ["__consumer_offsets"]
    find(broker, version, GROUP)
    assert broker.created == ["__consumer_offsets"]


@pytest.mark.parametrize("version", versions_of(ApiKey.FIND_COORDINATOR))
def test_partition_without_a_leader_has_no_coordinator(version: int) -> None:
    """A partition without a leader gets COORDINATOR_NOT_AVAILABLE, so that the client retries."""
    broker = GroupBroker()
    broker.show(topic("__consumer_offsets", TopicId(b"o" * 16), 3, leader=BrokerId(-1)))
    found = find(broker, version, GROUP)
    assert (found.error_code, found.node_id, found.port) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, -1)


@pytest.mark.parametrize(
    ("key_type", "code"),
    [
        (2, ErrorCode.INVALID_REQUEST),
        (9, ErrorCode.INVALID_REQUEST),
    ],
    ids=["share", "unheard of"],
)
def test_other_coordinators_are_not_served(key_type: int, code: ErrorCode) -> None:
    """Other coordinator types are refused in every version, with errors that make clients stop."""
    broker = GroupBroker()
    for version in versions_of(ApiKey.FIND_COORDINATOR):
        if version == 0:
            continue  # Version 0 knows groups only.
        request = (
            FindCoordinatorRequest(key_type=key_type, key="k")
            if version < 4
            else FindCoordinatorRequest(key_type=key_type, coordinator_keys=["k"])
        )
        with pytest.raises(KafkaError) as refused:
            broker.ask(find_coordinator, request, version)
        assert refused.value.code is code
        assert not code.retriable
        response = find_coordinator.error_response(request, version, code, refused.value.message)
        arrived = travelled(response, version)
        coordinator = arrived.coordinators[0] if version >= 4 else arrived
        assert (coordinator.error_code, coordinator.error_message) == (code, refused.value.message)


@pytest.mark.parametrize("version", versions_of(ApiKey.LIST_GROUPS))
def test_groups_are_listed_in_every_version(version: int) -> None:
    """Groups are listed in every version; version 4 added the state, version 5 the type, each with a filter."""
    broker = GroupBroker()
    broker.world.commit(1, group_id=GROUP)
    response = broker.ask(list_groups, ListGroupsRequest(), version)
    (group,) = response.groups
    assert (group.group_id, group.protocol_type) == (GROUP, "")
    assert group.group_state == ("Empty" if version >= 4 else "")
    assert group.group_type == ("classic" if version >= 5 else "")
    if version >= 5:
        assert broker.ask(list_groups, ListGroupsRequest(types_filter=["share"]), version).groups == []


@pytest.mark.parametrize("version", versions_of(ApiKey.DESCRIBE_GROUPS))
def test_groups_are_described_in_every_version(version: int) -> None:
    """An unknown group is described as Dead, and since version 6 with an error."""
    broker = GroupBroker()
    broker.world.commit(1, group_id=GROUP)
    response = broker.ask(describe_groups, DescribeGroupsRequest(groups=[GROUP, "ghost"]), version)
    states = {group.group_id: (group.group_state, group.error_code) for group in response.groups}
    unknown = ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else ErrorCode.NONE
    assert states == {GROUP: ("Empty", ErrorCode.NONE), "ghost": ("Dead", unknown)}


def test_authorized_operations_are_described_if_asked_for() -> None:
    """Authorized operations are described only if requested (KIP-430), and not for a group with an error."""
    broker = GroupBroker()
    broker.world.commit(1, group_id=GROUP)
    for asked in (True, False):
        request = DescribeGroupsRequest(groups=[GROUP, "ghost"], include_authorized_operations=asked)
        response = broker.ask(describe_groups, request, 6)
        operations = {group.group_id: group.authorized_operations for group in response.groups}
        assert operations == {GROUP: GROUP_OPERATIONS if asked else NOT_ASKED, "ghost": NOT_ASKED}


@pytest.mark.parametrize("version", versions_of(ApiKey.DELETE_GROUPS))
def test_groups_are_deleted_in_every_version(version: int) -> None:
    """Groups are deleted in every version, and a group that is named twice is deleted once."""
    broker = GroupBroker()
    broker.world.commit(1, group_id=GROUP)
    response = broker.ask(delete_groups, DeleteGroupsRequest(groups_names=[GROUP, "ghost", GROUP]), version)
    assert sorted((result.group_id, result.error_code) for result in response.results) == [
        ("ghost", ErrorCode.GROUP_ID_NOT_FOUND),
        (GROUP, ErrorCode.NONE),
    ]


def test_errors_travel_in_every_version() -> None:
    """An error before the coordinator gets an answer in every version."""
    code = ErrorCode.REQUEST_TIMED_OUT
    for version in versions_of(ApiKey.LIST_GROUPS):
        listed = travelled(list_groups.error_response(ListGroupsRequest(), version, code), version)
        assert listed.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    for version in versions_of(ApiKey.DESCRIBE_GROUPS):
        described = describe_groups.error_response(DescribeGroupsRequest(groups=["g"]), version, code)
        assert travelled(described, version).groups[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    for version in versions_of(ApiKey.DELETE_GROUPS):
        deleted = delete_groups.error_response(DeleteGroupsRequest(groups_names=["g"]), version, code)
        assert travelled(deleted, version).results[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
