"""One member of a classic group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup.

Version notes: JoinGroup 4 and later hands out the member id first (KIP-394), LeaveGroup 3 takes several members
(KIP-345), both 8 and 5 take a reason (KIP-800).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar

from klamm.client.cluster import Cluster, error_code
from klamm.client.config import Address, ClientConfig
from klamm.client.coordinator import find_coordinator
from klamm.client.errors import ConnectionFailed, GaveUp
from klamm.client.retry import Retries
from klamm.protocol.errors import ErrorCode
from klamm.protocol.message import Message
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.schema.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.schema.leave_group_response import LeaveGroupResponse
from klamm.protocol.schema.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.protocol.schema.sync_group_response import SyncGroupResponse

__all__ = ["REBALANCE_ALLOWANCE_MS", "ClassicMember", "GroupProtocol", "Joined", "MemberEpoch"]

REBALANCE_ALLOWANCE_MS: Final = 5_000
"""Added to the rebalance timeout for a JoinGroup, as in Kafka's consumer. The coordinator responds when the rebalance
is over, which may take this much longer than the timeout."""
_MOVED: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)

M = TypeVar("M", bound=Message)


class MemberEpoch(NamedTuple):
    """The generation and member id of a commit, by which the coordinator refuses commits of an earlier generation."""

    generation_id: int
    member_id: str


class GroupProtocol(NamedTuple):
    """The constant part of a member's JoinGroup requests."""

    protocol_type: str
    name: str
    """The assignor's name."""
    session_timeout_ms: int
    rebalance_timeout_ms: int


class Joined(NamedTuple):
    """The result of a rebalance for this member."""

    generation_id: int
    is_leader: bool
    members: Mapping[str, bytes]
    """The metadata of all members, by member id; empty unless this member is the leader."""


class ClassicMember:
    """A member of a classic group. Not thread-safe, except for `close` and for `leave`, which has a connection of its
    own.

    Each method sends one request to the coordinator and returns the error code, if any. After NOT_COORDINATOR and
    COORDINATOR_NOT_AVAILABLE the next call looks up the coordinator again. Each raises `ConnectionFailed` and
    `RequestTimedOut`.
    """

    def __init__(self, config: ClientConfig, group_id: str, protocol: GroupProtocol) -> None:
        self.group_id = group_id
        self.protocol = protocol
        self.member_id = ""
        self.generation_id = -1
        patience_ms = max(config.request_timeout_ms, protocol.rebalance_timeout_ms + REBALANCE_ALLOWANCE_MS)
        # A heartbeat without a response within the session timeout is useless.
        brief_ms = min(config.request_timeout_ms, protocol.session_timeout_ms)
        self._patient = Cluster(dataclasses.replace(config, request_timeout_ms=patience_ms))
        self._brief = Cluster(dataclasses.replace(config, request_timeout_ms=brief_ms))
        self._config = config
        self._coordinator: Address | None = None

    def forget_itself(self) -> None:
        """Clears the member id and generation, so that the next `join` is that of a new member."""
        self.member_id = ""
        self.generation_id = -1

    def join(self, metadata: bytes) -> Joined | ErrorCode:
        """Joins a rebalance. Returns when all members have joined or those that did not are expired."""
        answer = self._join_once(metadata)
        if not isinstance(answer, ErrorCode) and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self._join_once(metadata)
        if isinstance(answer, ErrorCode):
            return answer
        code = self._code(answer.error_code)
        if code is not ErrorCode.NONE:
            return code
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        members = {member.member_id: bytes(member.metadata) for member in answer.members}
        return Joined(answer.generation_id, answer.leader == answer.member_id, members)

    def _join_once(self, metadata: bytes) -> JoinGroupResponse | ErrorCode:
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=self.protocol.session_timeout_ms,
            rebalance_timeout_ms=self.protocol.rebalance_timeout_ms,
            member_id=self.member_id,
            protocol_type=self.protocol.protocol_type,
            protocols=[JoinGroupRequestProtocol(name=self.protocol.name, metadata=metadata)],
        )
        return self._ask(self._patient, request, JoinGroupResponse)

    def sync(self, assignments: Mapping[str, bytes]) -> bytes | ErrorCode:
        """Returns this member's assignment. The leader passes the assignments of all members, other members pass
        none."""
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            protocol_type=self.protocol.protocol_type,
            protocol_name=self.protocol.name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ],
        )
        answer = self._ask(self._patient, request, SyncGroupResponse)
        if isinstance(answer, ErrorCode):
            return answer
        code = self._code(answer.error_code)
        return bytes(answer.assignment) if code is ErrorCode.NONE else code

    def heartbeat(self) -> ErrorCode:
        """Sends a heartbeat. Returns REBALANCE_IN_PROGRESS when the group rebalances."""
        request = HeartbeatRequest(group_id=self.group_id, generation_id=self.generation_id, member_id=self.member_id)
        answer = self._ask(self._brief, request, HeartbeatResponse)
        return answer if isinstance(answer, ErrorCode) else self._code(answer.error_code)

    def leave(self, reason: str, patience_ms: int) -> ErrorCode:
        """Leaves the group, over a new connection, so that another thread may be in a call meanwhile.

        Asks again for up to `patience_ms` if the coordinator has moved or stopped, or loads its groups. So it may
        return NOT_COORDINATOR, and raises `GaveUp` if no coordinator can be reached.
        """
        if not self.member_id:
            return ErrorCode.NONE
        config = dataclasses.replace(
            self._config,
            request_timeout_ms=patience_ms,
            socket_connection_setup_timeout_ms=patience_ms,
            default_api_timeout_ms=patience_ms,
        )
        # Before version 3 the request has no list of members; no broker in use is that old.
        request = LeaveGroupRequest(
            group_id=self.group_id, members=[MemberIdentity(member_id=self.member_id, reason=reason)]
        )
        cluster, coordinator = Cluster(config), self._coordinator
        retries = Retries(config, f"leave group {self.group_id!r}")
        try:
            while True:
                try:
                    found = coordinator or find_coordinator(cluster, self.group_id)
                    if isinstance(found, ErrorCode):
                        code = found
                    else:
                        coordinator = found
                        answer = cluster.connection_to_address(found).request(request, LeaveGroupResponse)
                        code = error_code(answer.error_code or (answer.members[0].error_code if answer.members else 0))
                except ConnectionFailed as error:
                    coordinator = None
                    retries.pause(error)
                    continue
                if not code.retriable:
                    return code
                if code in _MOVED:
                    coordinator = None
                try:
                    retries.pause(code.name)
                except GaveUp:
                    return code
        finally:
            cluster.close()

    def close(self) -> None:
        """Closes the connections. A member that has not left expires after its session timeout."""
        self._patient.close()
        self._brief.close()

    def _ask(self, cluster: Cluster, request: Message, answer: type[M]) -> M | ErrorCode:
        try:
            if self._coordinator is None:
                found = find_coordinator(cluster, self.group_id)
                if isinstance(found, ErrorCode):
                    return found
                self._coordinator = found
            return cluster.connection_to_address(self._coordinator).request(request, answer)
        except ConnectionFailed:
            self._coordinator = None
            raise

    def _code(self, number: int) -> ErrorCode:
        code = error_code(number)
        if code in _MOVED:
            self._coordinator = None
        return code
