"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup, in every version that clients send."""

from __future__ import annotations

import pytest
from tests.unit.broker.handlers.group_broker import GroupBroker, travelled, versions_of

from klamm.broker.handlers import heartbeat, join_group, leave_group, sync_group
from klamm.protocol.api import ApiKey
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.schema.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

GROUP = "orders"


def join(
    broker: GroupBroker, version: int, member_id: str = "", *, session_timeout_ms: int = 10_000
) -> JoinGroupResponse:
    """One JoinGroup and its answer."""
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )
    response = broker.ask(join_group, request, version)
    assert isinstance(response, JoinGroupResponse)
    return response


def joined(broker: GroupBroker, version: int) -> JoinGroupResponse:
    """The answer with the generation, after as many requests as the version takes."""
    response = join(broker, version)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        response = join(broker, version, response.member_id)
    assert response.error_code == ErrorCode.NONE
    return response


@pytest.mark.parametrize("version", versions_of(ApiKey.JOIN_GROUP))
def test_join_in_every_version(version: int) -> None:
    """From version 4 on in two steps; from 7 on the answer has the protocol's type."""
    broker = GroupBroker()
    response = joined(broker, version)
    assert (response.generation_id, response.protocol_name, response.leader) == (1, "range", response.member_id)
    assert response.protocol_type == ("consumer" if version >= 7 else None)
    assert response.member_id.startswith("app-")
    assert [member.metadata for member in response.members] == [b"m"]


@pytest.mark.parametrize("version", versions_of(ApiKey.JOIN_GROUP))
def test_refused_join_in_every_version(version: int) -> None:
    """No protocol is null where that can travel, and empty where it cannot."""
    response = join(GroupBroker(), version, session_timeout_ms=1)
    assert response.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert response.protocol_name == (None if version >= 7 else "")


def test_version_0_has_one_timeout_for_all() -> None:
    """The session timeout is the rebalance timeout too."""
    broker = GroupBroker()
    joined(broker, 0)
    group = broker.world.shard(broker.world.coordinator.partition_for(GROUP)).classic_groups.find(GROUP)
    assert group is not None
    (member,) = group.members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 10_000)


@pytest.mark.parametrize("version", versions_of(ApiKey.SYNC_GROUP))
def test_sync_in_every_version(version: int) -> None:
    """The leader's assignment comes back; from version 5 on with the protocol it is for."""
    broker = GroupBroker()
    member_id = joined(broker, 9).member_id
    request = SyncGroupRequest(
        group_id=GROUP,
        generation_id=1,
        member_id=member_id,
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
        assignments=[SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")],
    )
    response = broker.ask(sync_group, request, version)
    assert (response.error_code, response.assignment) == (ErrorCode.NONE, b"all")
    assert response.protocol_name == ("range" if version >= 5 else None)


def test_sync_of_version_5_must_name_the_protocol() -> None:
    """Without it a leader might assign for another one (KIP-559)."""
    broker = GroupBroker()
    member_id = joined(broker, 9).member_id
    request = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=member_id)
    assert broker.ask(sync_group, request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", versions_of(ApiKey.HEARTBEAT))
def test_heartbeat_in_every_version(version: int) -> None:
    """A member that has joined is alive; one that has not is unknown."""
    broker = GroupBroker()
    member_id = joined(broker, 9).member_id
    request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id)
    assert broker.ask(heartbeat, request, version).error_code == ErrorCode.NONE
    request.member_id = "ghost"
    assert broker.ask(heartbeat, request, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", versions_of(ApiKey.LEAVE_GROUP))
def test_leave_in_every_version(version: int) -> None:
    """Before version 3 one member, whose error is that of the whole."""
    broker = GroupBroker()
    member_id = joined(broker, 9).member_id
    for leaving, code in ((member_id, ErrorCode.NONE), ("ghost", ErrorCode.UNKNOWN_MEMBER_ID)):
        if version >= 3:
            request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=leaving)])
            response = broker.ask(leave_group, request, version)
            assert response.error_code == ErrorCode.NONE
            assert [member.error_code for member in response.members] == [code]
        else:
            request = LeaveGroupRequest(group_id=GROUP, member_id=leaving)
            assert broker.ask(leave_group, request, version).error_code == code


@pytest.mark.parametrize(
    ("module", "key", "request_class"),
    [
        (join_group, ApiKey.JOIN_GROUP, JoinGroupRequest),
        (sync_group, ApiKey.SYNC_GROUP, SyncGroupRequest),
        (heartbeat, ApiKey.HEARTBEAT, HeartbeatRequest),
        (leave_group, ApiKey.LEAVE_GROUP, LeaveGroupRequest),
    ],
)
def test_errors_travel_in_every_version(module: object, key: ApiKey, request_class: type) -> None:
    """Whatever fails before the coordinator is asked gets an answer."""
    for version in versions_of(key):
        response = module.error_response(request_class(), version, ErrorCode.KAFKA_STORAGE_ERROR, "why")  # type: ignore[attr-defined]
        assert travelled(response, version).error_code == ErrorCode.NOT_COORDINATOR
