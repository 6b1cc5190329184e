"""Tests JoinGroup, SyncGroup, Heartbeat and LeaveGroup in every version that clients send."""

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
    """Sends one JoinGroup and returns its answer."""
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
    """Returns the answer with the generation, after as many requests as the version needs."""
    response = join(broker, version)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        response = join(broker, version, response.member_id)
    assert response.error_code == ErrorCode.NONE
    return response


@pytest.mark.parametrize("version", versions_of(ApiKey.JOIN_GROUP))
def test_join_in_every_version(version: int) -> None:
    """Joining takes two requests since version 4, and since version 7 the answer has the protocol type."""
    broker = GroupBroker()
    response = joined(broker, version)
    assert (response.generation_id, response.protocol_name, response.leader) == (1, "range", response.member_id)
    assert response.protocol_type == ("consumer" if version >= 7 else None)
    assert response.member_id.startswith("app-")
    assert [member.metadata for member in response.members] == [b"m"]


@pytest.mark.parametrize("version", versions_of(ApiKey.JOIN_GROUP))
def test_refused_join_in_every_version(version: int) -> None:
    """A refused join has no protocol name: null where the version allows null, and empty otherwise."""
    response = join(GroupBroker(), version, session_timeout_ms=1)
    assert response.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert response.protocol_name == (None if version >= 7 else "")


def test_version_0_has_one_timeout_for_all() -> None:
    """In version 0, the session timeout is also the rebalance timeout."""
    broker = GroupBroker()
    joined(broker, 0)
    group = broker.world.shard(broker.world.coordinator.partition_for(GROUP)).classic_groups.find(GROUP)
    assert group is not None
    (member,) = group.members.values()
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (10_000, 10_000)


@pytest.mark.parametrize("version", versions_of(ApiKey.SYNC_GROUP))
def test_sync_in_every_version(version: int) -> None:
    """The answer has the leader's assignment, and since version 5 also the protocol."""
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
    """Since version 5, SyncGroup must name the protocol, so that a leader can't assign for a different one
    (KIP-559)."""
    broker = GroupBroker()
    member_id = joined(broker, 9).member_id
    request = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=member_id)
    assert broker.ask(sync_group, request, 5).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("version", versions_of(ApiKey.HEARTBEAT))
def test_heartbeat_in_every_version(version: int) -> None:
    """The heartbeat of a joined member succeeds, and an unknown member gets UNKNOWN_MEMBER_ID."""
    broker = GroupBroker()
    member_id = joined(broker, 9).member_id
    request = HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id)
    assert broker.ask(heartbeat, request, version).error_code == ErrorCode.NONE
    request.member_id = "ghost"
    assert broker.ask(heartbeat, request, version).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", versions_of(ApiKey.LEAVE_GROUP))
def test_leave_in_every_version(version: int) -> None:
    """Before version 3, LeaveGroup has one member, whose error is the error of the whole request."""
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
    """An error before the coordinator gets an answer in every version."""
    for version in versions_of(key):
        response = module.error_response(request_class(), version, ErrorCode.KAFKA_STORAGE_ERROR, "why")  # type: ignore[attr-defined]
        assert travelled(response, version).error_code == ErrorCode.NOT_COORDINATOR
