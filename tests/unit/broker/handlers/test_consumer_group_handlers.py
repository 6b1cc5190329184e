"""Tests ConsumerGroupHeartbeat and ConsumerGroupDescribe in every version that clients send."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.broker.handlers.group_broker import EVENTS_ID, GroupBroker, travelled, versions_of

from klamm.broker.handlers import consumer_group_describe, consumer_group_heartbeat
from klamm.broker.handlers.shared.authorized_operations import GROUP_OPERATIONS, NOT_ASKED
from klamm.config.broker_config import BrokerConfig
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest

GROUP = "orders"
ONE = "one"


def join(broker: GroupBroker, version: int, **fields: Any) -> Any:
    """Sends a member's first heartbeat; since version 1 the member brings its own id."""
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=ONE if version >= 1 else "",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["events"],
        topic_partitions=[],
    )
    for name, value in fields.items():
        setattr(request, name, value)
    return broker.ask(consumer_group_heartbeat, request, version)


def describe(broker: GroupBroker, version: int, *groups: str, operations: bool = False) -> Any:
    request = ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=operations)
    return {group.group_id: group for group in broker.ask(consumer_group_describe, request, version).groups}


@pytest.mark.parametrize("version", versions_of(ApiKey.CONSUMER_GROUP_HEARTBEAT))
def test_a_member_joins_in_every_version(version: int) -> None:
    """The answer to a joining member has its id, its epoch, the heartbeat interval and its partitions."""
    response = join(GroupBroker(), version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
    assert response.member_id == ONE if version >= 1 else response.member_id
    assert response.member_epoch > 0
    assert response.heartbeat_interval_ms == 5000
    (topic,) = response.assignment.topic_partitions
    assert (topic.topic_id, sorted(topic.partitions)) == (EVENTS_ID, [0, 1])


def test_a_regular_expression_travels_since_version_1() -> None:
    """Version 1 carries a regular expression, and the answer to an invalid one says what is wrong."""
    response = join(GroupBroker(), 1, subscribed_topic_names=None, subscribed_topic_regex="(")
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "is not a valid regular expression" in response.error_message


@pytest.mark.parametrize("version", versions_of(ApiKey.CONSUMER_GROUP_HEARTBEAT))
def test_what_is_wrong_with_a_heartbeat_is_said(version: int) -> None:
    """An invalid heartbeat gets INVALID_REQUEST with a message."""
    response = join(GroupBroker(), version, group_id="")
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    assert response.assignment is None


@pytest.mark.parametrize("version", versions_of(ApiKey.CONSUMER_GROUP_DESCRIBE))
def test_groups_are_described_in_every_version(version: int) -> None:
    """A group is described with its members and both their assignments, and since version 1 with the protocol of each
    member."""
    broker = GroupBroker()
    join(broker, 1)
    groups = describe(broker, version, GROUP, "ghost", "")
    assert (groups["ghost"].error_code, groups["ghost"].error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group ghost not found.",
    )
    assert groups[""].error_code == ErrorCode.INVALID_GROUP_ID
    group = groups[GROUP]
    assert (group.error_code, group.group_state, group.assignor_name) == (ErrorCode.NONE, "Stable", "uniform")
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == (ONE, "app", "/10.0.0.1")
    assert member.member_type == (1 if version >= 1 else -1)
    for assignment in (member.assignment, member.target_assignment):
        (topic,) = assignment.topic_partitions
        assert (topic.topic_id, topic.topic_name, sorted(topic.partitions)) == (EVENTS_ID, "events", [0, 1])


def test_a_classic_group_is_no_consumer_group() -> None:
    """A classic group gets GROUP_ID_NOT_FOUND; clients then send DescribeGroups."""
    broker = GroupBroker()
    broker.world.join()
    group = next(iter(describe(broker, 1, "orders").values()))
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert group.error_message == "Group orders is not a consumer group."


def test_authorized_operations_are_described_if_asked_for() -> None:
    """Authorized operations are described only if requested (KIP-430), and not for a group with an error."""
    broker = GroupBroker()
    join(broker, 1)
    for asked in (True, False):
        groups = describe(broker, 1, GROUP, "ghost", operations=asked)
        operations = {group_id: group.authorized_operations for group_id, group in groups.items()}
        assert operations == {GROUP: GROUP_OPERATIONS if asked else NOT_ASKED, "ghost": NOT_ASKED}


def test_without_the_protocol_nothing_is_served() -> None:
    """`group.coordinator.rebalance.protocols` without `consumer` makes the broker refuse both APIs, as in Kafka."""
    broker = GroupBroker(config=BrokerConfig(group_coordinator_rebalance_protocols=("classic",)))
    with pytest.raises(KafkaError) as refused:
        join(broker, 1)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    with pytest.raises(KafkaError) as refused:
        describe(broker, 1, GROUP)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_errors_travel_in_every_version() -> None:
    """An error before the coordinator gets an answer in every version, with the code for each described group."""
    code = ErrorCode.UNSUPPORTED_VERSION
    for version in versions_of(ApiKey.CONSUMER_GROUP_HEARTBEAT):
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP)
        beaten = travelled(consumer_group_heartbeat.error_response(request, version, code), version)
        assert (beaten.error_code, beaten.error_message) == (code, None)
    for version in versions_of(ApiKey.CONSUMER_GROUP_DESCRIBE):
        asked = ConsumerGroupDescribeRequest(group_ids=["a", "b"])
        described = travelled(consumer_group_describe.error_response(asked, version, code), version)
        assert [(group.group_id, group.error_code) for group in described.groups] == [("a", code), ("b", code)]
