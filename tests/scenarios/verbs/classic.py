"""Requests of members of classic groups: join, sync, heartbeat, leave.

A: join range,roundrobin events,payments session=10s rebalance=60s instance=a v=9 data=x type=connect reason=...
A: sync A=events:0-2 B=events:3-5      (the leader; other members write only `sync`)
A: heartbeat generation=previous id=nobody
A: leave reason=...                    (itself), or since v=3: leave A B none/b C/c nobody (ids, with instance ids)
"""

from __future__ import annotations

from typing import Final

from tests.scenarios.states import show_assignment_bytes, show_error
from tests.scenarios.values import Arguments, Partitions, partitions
from tests.scenarios.world import Ask, Member

from klamm.protocol.consumer_protocol import encode_assignment, encode_subscription
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription
from klamm.protocol.schema.consumer_protocol_subscription import TopicPartition as OwnedPartition
from klamm.protocol.schema.heartbeat_request import HeartbeatRequest
from klamm.protocol.schema.heartbeat_response import HeartbeatResponse
from klamm.protocol.schema.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from klamm.protocol.schema.join_group_response import JoinGroupResponse
from klamm.protocol.schema.leave_group_request import LeaveGroupRequest, MemberIdentity
from klamm.protocol.schema.leave_group_response import LeaveGroupResponse
from klamm.protocol.schema.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from klamm.protocol.schema.sync_group_response import SyncGroupResponse

__all__ = ["heartbeat", "join", "leave", "sync"]

JOIN, SYNC, HEARTBEAT, LEAVE = 9, 5, 4, 5
NOTHING: Final = "nothing"


def _id(member: Member, arguments: Arguments) -> str:
    given = arguments.given("id")
    return member.member_id if given is None else member.world.id_of(given)


def _instance(arguments: Arguments, version: int, since: int) -> str | None:
    """Returns the instance id if the version supports it."""
    instance_id = arguments.get("instance")
    return instance_id if version >= since else None


def _subscription(member: Member, arguments: Arguments) -> bytes:
    """Returns the metadata of a consumer: its topics, its user data, and its partitions (for cooperative members)."""
    world = member.world
    topics = [world.long(topic) for topic in arguments.word(NOTHING).split(",") if topic != NOTHING]
    raw = arguments.given("raw")
    if raw is not None:
        return raw.encode()
    data, owns = arguments.get("data"), arguments.given("owns")
    owned: Partitions = {} if owns is None else member.assigned if owns == "assigned" else partitions(owns)
    message = ConsumerProtocolSubscription(
        topics=topics,
        user_data=None if data is None else data.encode(),
        owned_partitions=[OwnedPartition(topic=world.long(topic), partitions=each) for topic, each in owned.items()],
        generation_id=member.generation,
        rack_id=arguments.get("rack"),
    )
    # Changed metadata causes a rebalance, so the metadata contains a generation only in versions that have one.
    version = arguments.number("metadata", 1)
    if version < 2:
        message.generation_id = -1
    if version < 3:
        message.rack_id = None
    return encode_subscription(message, version)


def join(member: Member, arguments: Arguments) -> Ask:
    """Builds a JoinGroup request."""
    version = arguments.number("v", JOIN)
    names = arguments.word("range").split(",")
    metadata = _subscription(member, arguments)
    request = JoinGroupRequest(
        group_id=member.world.group_id,
        session_timeout_ms=arguments.duration_ms("session", "60s"),
        rebalance_timeout_ms=arguments.duration_ms("rebalance", "60s") if version >= 1 else -1,
        member_id=_id(member, arguments),
        group_instance_id=_instance(arguments, version, 5),
        protocol_type=arguments.take("type", "consumer").replace("none", ""),
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in names if name != NOTHING],
        reason=arguments.given("reason"),
    )
    asked = request.member_id
    return Ask(
        request,
        version,
        lambda response: _tell_join(member, response, asked),
        lambda response: _learn_join(member, response),
    )


def _learn_join(member: Member, response: Message) -> None:
    assert isinstance(response, JoinGroupResponse)
    if response.member_id:
        member.world.learn_id(member, response.member_id)
    if not response.error_code:
        member.generation = response.generation_id
        member.protocol = response.protocol_name or ""


def _tell_join(member: Member, response: Message, asked: str) -> str:
    assert isinstance(response, JoinGroupResponse)
    if response.error_code:
        given = response.member_id not in ("", asked)
        told = show_error(response.error_code)
        return f"{told}, member {member.world.name_of(response.member_id)}" if given else told
    name_of = member.world.name_of
    told = f"ok, generation {response.generation_id}, {response.protocol_type or ''}/{response.protocol_name}"
    told += f", leader {name_of(response.leader)}, member {name_of(response.member_id)}"
    if response.skip_assignment:
        told += ", skip assignment"
    if response.members:
        names = sorted(
            name_of(each.member_id) + (f" (static {each.group_instance_id})" if each.group_instance_id else "")
            for each in response.members
        )
        told += f", members {', '.join(names)}"
    return told


def _or_null(text: str) -> str | None:
    return None if text == "null" else text


def sync(member: Member, arguments: Arguments) -> Ask:
    """Builds a SyncGroup request."""
    world = member.world
    version = arguments.number("v", SYNC)
    given = {world.id_of(name): partitions(value) for name, value in arguments.of_members().items()}
    raw = arguments.given("raw")
    if raw is not None:
        bytes_of = {member.member_id: raw.encode()}
    else:
        bytes_of = {member_id: assignment_bytes(member, owned) for member_id, owned in given.items()}
    request = SyncGroupRequest(
        group_id=world.group_id,
        generation_id=arguments.number("generation", member.generation),
        member_id=_id(member, arguments),
        group_instance_id=_instance(arguments, version, 3),
        protocol_type=_or_null(arguments.take("type", "consumer")),
        protocol_name=_or_null(arguments.take("protocol", member.protocol)),
        assignments=[SyncGroupRequestAssignment(member_id=each, assignment=data) for each, data in bytes_of.items()],
    )
    return Ask(
        request, version, lambda response: _tell_sync(member, response), lambda response: _learn_sync(member, response)
    )


def assignment_bytes(member: Member, owned: Partitions) -> bytes:
    """Encodes a leader's assignment for one member."""
    assigned = [TopicPartition(topic=member.world.long(topic), partitions=each) for topic, each in owned.items()]
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned), 1)


def _learn_sync(member: Member, response: Message) -> None:
    assert isinstance(response, SyncGroupResponse)
    given = show_assignment_bytes(member.world, bytes(response.assignment))
    if given[0] != "b" and ":" in given:
        member.assigned = partitions(given)


def _tell_sync(member: Member, response: Message) -> str:
    assert isinstance(response, SyncGroupResponse)
    if response.error_code:
        return show_error(response.error_code)
    given = show_assignment_bytes(member.world, bytes(response.assignment))
    protocol = f"{response.protocol_type}/{response.protocol_name}" if response.protocol_type else "no protocol"
    return f"ok, {protocol}, assignment {given}"


def heartbeat(member: Member, arguments: Arguments) -> Ask:
    """Builds a Heartbeat request."""
    version = arguments.number("v", HEARTBEAT)
    request = HeartbeatRequest(
        group_id=member.world.group_id,
        generation_id=arguments.number("generation", member.generation),
        member_id=_id(member, arguments),
        group_instance_id=_instance(arguments, version, 3),
    )
    return Ask(request, version, _tell_heartbeat)


def _tell_heartbeat(response: Message) -> str:
    assert isinstance(response, HeartbeatResponse)
    return show_error(response.error_code)


def leave(member: Member, arguments: Arguments) -> Ask:
    """Builds a LeaveGroup request, of the member or of the named members; `instance=` names an instance without an
    id."""
    world = member.world
    version = arguments.number("v", LEAVE)
    leaving: list[tuple[str, str | None]] = []
    for name in arguments.words():
        other, _, instance = name.partition("/")
        leaving.append((world.id_of(other), instance or None))
    instance_id = arguments.get("instance")
    if not leaving:
        leaving.append((_id(member, arguments), instance_id))
    reason = arguments.given("reason")
    if version < 3:
        request = LeaveGroupRequest(group_id=world.group_id, member_id=leaving[0][0])
    else:
        members = [MemberIdentity(member_id=each, group_instance_id=other, reason=reason) for each, other in leaving]
        request = LeaveGroupRequest(group_id=world.group_id, members=members)
    return Ask(request, version, lambda response: _tell_leave(member, response))


def _tell_leave(member: Member, response: Message) -> str:
    assert isinstance(response, LeaveGroupResponse)
    told = [show_error(response.error_code)]
    for each in response.members:
        name = member.world.name_of(each.member_id)
        instance = f"/{each.group_instance_id}" if each.group_instance_id is not None else ""
        told.append(f"{name}{instance} {show_error(each.error_code)}")
    return ", ".join(told)
