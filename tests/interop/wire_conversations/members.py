"""Members of a classic group, each with its own connection and client id, for the conversations about groups."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from tests.interop.wire_conversations.talk import Talk

from klamm.protocol.consumer_protocol import encode_subscription
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.describe_groups_response import DescribeGroupsResponse
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.schema.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

__all__ = ["Member", "leave_request", "subscription", "wait_a_moment", "wait_for_group"]

JOIN, SYNC, HEARTBEAT, LEAVE = 5, 3, 3, 3
"""Versions in conversations about other APIs: the first versions with static members."""
SUBSCRIBED = "wire-subscribed"


def subscription(marker: str, topic: str = SUBSCRIBED) -> bytes:
    """Returns the valid metadata with which a consumer joins, because Apache Kafka fails later on invalid metadata."""
    return encode_subscription(ConsumerProtocolSubscription(topics=[topic], user_data=marker.encode()))


PROTOCOLS: Final = {"range": subscription("r"), "roundrobin": subscription("rr")}


class Member:
    """A member. By default, requests use the versions above; `None` uses the conversation's version."""

    def __init__(self, talk: Talk, name: str, group: str, instance: str | None = None) -> None:
        self.talk = talk.another(name)
        self.group = group
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.is_leader = False
        self._join: tuple[JoinGroupRequest, int | None] | None = None
        self._sync: tuple[SyncGroupRequest, int | None] | None = None

    def join(self, version: int | None = JOIN, **fields: Any) -> JoinGroupResponse:
        """Joins and waits for the answer; joins again with the assigned id if the broker requires a member id."""
        self.begin_join(version, **fields)
        response = self.end_join()
        if response.error_code == 79:
            self.begin_join(version, **fields)
            response = self.end_join()
        return response

    def begin_join(
        self, version: int | None = JOIN, *, protocols: Mapping[str, bytes] = PROTOCOLS, **fields: Any
    ) -> None:
        """Sends a join request; the broker answers it when the rebalance completes."""
        request = JoinGroupRequest(
            group_id=fields.pop("group_id", self.group),
            session_timeout_ms=fields.pop("session_timeout_ms", 30_000),
            rebalance_timeout_ms=fields.pop("rebalance_timeout_ms", 60_000),
            member_id=fields.pop("member_id", self.member_id),
            group_instance_id=fields.pop("instance", self.instance),
            protocol_type=fields.pop("protocol_type", "consumer"),
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()],
            **fields,
        )
        self._join = request, version
        self.talk.tell(request, version)

    def end_join(self) -> JoinGroupResponse:
        """Returns the answer to the join request."""
        assert self._join is not None
        response = self.talk.hear(*self._join)
        assert isinstance(response, JoinGroupResponse)
        self.member_id = response.member_id or self.member_id
        if not response.error_code:
            self.generation = response.generation_id
            self.is_leader = response.leader == response.member_id
        return response

    def sync(self, version: int | None = SYNC, **fields: Any) -> None:
        """Syncs and waits for the answer."""
        self.begin_sync(version, **fields)
        self.end_sync()

    def begin_sync(
        self, version: int | None = SYNC, assignments: Mapping[str, bytes] | None = None, **fields: Any
    ) -> None:
        """Requests the member's assignment; the leader's request contains the assignments of all members."""
        request = SyncGroupRequest(
            group_id=fields.pop("group_id", self.group),
            generation_id=fields.pop("generation", self.generation),
            member_id=fields.pop("member_id", self.member_id),
            group_instance_id=fields.pop("instance", self.instance),
            protocol_type=fields.pop("protocol_type", "consumer"),
            protocol_name=fields.pop("protocol_name", "range"),
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=data)
                for member_id, data in (assignments or {}).items()
            ],
            **fields,
        )
        self._sync = request, version
        self.talk.tell(request, version)

    def end_sync(self) -> None:
        """Receives the answer to the sync request."""
        assert self._sync is not None
        self.talk.hear(*self._sync)

    def heartbeat(self, version: int | None = HEARTBEAT, **fields: Any) -> None:
        """Sends a heartbeat."""
        request = HeartbeatRequest(
            group_id=fields.pop("group_id", self.group),
            generation_id=fields.pop("generation", self.generation),
            member_id=fields.pop("member_id", self.member_id),
            group_instance_id=fields.pop("instance", self.instance),
        )
        self.talk.ask(request, version)

    def leave(self, version: int | None = LEAVE) -> None:
        """Leaves the group."""
        self.talk.ask(leave_request(self.group, (self.member_id, self.instance)), version)


def leave_request(group: str, *members: tuple[str, str | None], reason: str | None = None) -> LeaveGroupRequest:
    """Returns a request for members to leave; before version 3, only the first member has room."""
    return LeaveGroupRequest(
        group_id=group,
        member_id=members[0][0] if members else "",
        members=[
            MemberIdentity(member_id=member_id, group_instance_id=instance, reason=reason)
            for member_id, instance in members
        ],
    )


def wait_for_group(talk: Talk, group: str, state: str, members: int) -> None:
    """Waits until a group has this state and number of members, so that earlier requests have taken effect."""

    def is_there() -> bool:
        request = DescribeGroupsRequest(groups=[group])
        (described,) = talk.peer.wire.call(DescribeGroupsResponse, 5, request).groups
        return described.group_state == state and len(described.members) == members

    talk.peer.until(is_there)


def wait_a_moment() -> None:
    """Waits a moment so that earlier requests take effect, where no request can show that."""
    time.sleep(0.03)
