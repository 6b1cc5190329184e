"""Response fields that only klamm's own tools get, in addition to Kafka's fields."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from tests.support.wire import Wire

from klamm.client.cluster import Cluster
from klamm.client.config import ClientConfig
from klamm.client.group_description import ClassicDescription, GroupDescriptions
from klamm.protocol.api import ApiKey
from klamm.protocol.codec import encode
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribedGroup, DescribeGroupsResponse
from klamm.protocol.schema.find_coordinator_request import FindCoordinatorRequest
from klamm.protocol.schema.find_coordinator_response import FindCoordinatorResponse
from klamm.protocol.schema.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.sync_group_request import SyncGroupRequest
from klamm.protocol.schema.sync_group_response import SyncGroupResponse
from klamm.testing import Broker


@pytest.fixture(scope="module")
def quick() -> Iterator[Broker]:
    """Runs a broker whose groups do not wait for more members."""
    with Broker(config={"group.initial.rebalance.delay.ms": "0"}) as broker:
        yield broker


def join(group: str, member_id: str = "", metadata: bytes = b"") -> JoinGroupRequest:
    """Returns the request of a member that joins or rejoins."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="own",
        protocols=[JoinGroupRequestProtocol(name="plain", metadata=metadata)],
    )


def enter(wire: Wire, group: str) -> JoinGroupResponse:
    """Joins the group as a new member as soon as the group has a coordinator."""
    for _ in range(1000):
        wire.call(FindCoordinatorResponse, 4, FindCoordinatorRequest(coordinator_keys=[group]))
        # Version 3 is the last one in which a member gets its id without a second join request.
        answer = wire.call(JoinGroupResponse, 3, join(group))
        if not ErrorCode(answer.error_code).retriable:
            break
    assert answer.error_code == ErrorCode.NONE
    return answer


def described(broker: Broker, group: str, awaited: object) -> DescribedGroup:
    """Returns klamm's own description of the group once the group waits for the given members."""
    descriptions = GroupDescriptions(
        Cluster(ClientConfig.from_mapping({"bootstrap.servers": broker.bootstrap_servers})), group
    )
    try:
        for _ in range(1000):
            found = descriptions.describe()
            assert isinstance(found, ClassicDescription)
            if found.awaited_members == awaited:
                return found
        raise AssertionError(found)
    finally:
        descriptions.close()


def test_own_tools_are_told_for_whom_a_classic_group_waits(quick: Broker) -> None:
    """The awaited members are those that have not rejoined, then the leader; other clients get only Kafka's fields."""
    group = f"group-{uuid.uuid4().hex[:8]}"
    with Wire(quick.bootstrap_servers, "one") as one, Wire(quick.bootstrap_servers, "other") as other:
        leader = enter(one, group)
        one.call(
            SyncGroupResponse,
            3,
            SyncGroupRequest(group_id=group, generation_id=leader.generation_id, member_id=leader.member_id),
        )
        assert described(quick, group, []).group_state == "Stable"
        other.send(ApiKey.JOIN_GROUP, 3, encode(join(group), 3))
        waiting = described(quick, group, [leader.member_id])
        assert (waiting.group_state, len(waiting.members)) == ("PreparingRebalance", 2)
        with Wire(quick.bootstrap_servers) as stranger:
            answer = stranger.call(DescribeGroupsResponse, 6, DescribeGroupsRequest(groups=[group]))
            assert answer.groups[0].awaited_members is None
        assert one.call(JoinGroupResponse, 3, join(group, leader.member_id)).generation_id == 2
        assert described(quick, group, [leader.member_id]).group_state == "CompletingRebalance"
