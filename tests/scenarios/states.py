"""The state of a group, from both kinds of describe requests, as readable lines.

= classic Stable, consumer/range
=   A of events, owns events:0-2
=   B (static b) of events, owns events:3-5

= consumer Reconciling, epoch 3, assignment epoch 3, uniform
=   A epoch 2 of events, owns events:0-5, target events:0-2
=   B epoch 3 of events, owns nothing, target events:3-5
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tests.scenarios.values import Partitions
from tests.scenarios.world import World

from klamm.protocol.consumer_protocol import decode_assignment, decode_subscription
from klamm.protocol.errors import ErrorCode, MalformedMessage
from klamm.protocol.schema import consumer_group_describe_response as consumer
from klamm.protocol.schema import describe_groups_response as classic
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest

__all__ = ["NO_GROUP", "show_assignment_bytes", "show_classic_group", "show_consumer_group", "show_error", "show_state"]

NO_GROUP: Final = ["= no group"]
MEMBER_TYPES: Final = {-1: "of unknown type", 0: "classic", 1: "consumer"}


def show_state(world: World) -> list[str]:
    """Returns the current state of the scenario's group."""
    if not world.group_id:
        return NO_GROUP
    request = DescribeGroupsRequest(groups=[world.group_id])
    (group,) = world.peer.wire.call(classic.DescribeGroupsResponse, 6, request).groups
    if not group.error_code:
        return [f"= {line}" for line in show_classic_group(world, group)]
    asked = ConsumerGroupDescribeRequest(group_ids=[world.group_id])
    (found,) = world.peer.wire.call(consumer.ConsumerGroupDescribeResponse, 1, asked).groups
    return NO_GROUP if found.error_code else [f"= {line}" for line in show_consumer_group(world, found)]


def show_classic_group(world: World, group: classic.DescribedGroup) -> Iterator[str]:
    """Yields a line for the group and one for each member."""
    yield f"classic {group.group_state}, {group.protocol_type}/{group.protocol_data}"
    yield from sorted(_classic_member(world, member) for member in group.members)


def _classic_member(world: World, member: classic.DescribedGroupMember) -> str:
    name = _name(world, member.member_id, member.group_instance_id, member.client_id)
    subscribed = _subscribed(world, bytes(member.member_metadata))
    return f"  {name}{subscribed}, owns {show_assignment_bytes(world, bytes(member.member_assignment))}"


def _name(world: World, member_id: str, instance_id: str | None, client_id: str) -> str:
    name = world.name_of(member_id)
    if instance_id is not None:
        name += f" (static {instance_id})"
    return name if client_id == re.split(r"\W", name)[0] else f"{name} (client {client_id})"


def _subscribed(world: World, metadata: bytes) -> str:
    if not metadata:
        return ""
    try:
        subscription = decode_subscription(metadata)
    except MalformedMessage:
        return f" with {metadata!r}"
    return f" of {','.join(sorted(map(world.short, subscription.topics))) or 'nothing'}"


def show_assignment_bytes(world: World, data: bytes) -> str:
    """Returns the assignment that a classic member got from its leader."""
    if not data:
        return "nothing"
    try:
        assignment = decode_assignment(data)
    except MalformedMessage:
        return repr(data)
    owned = {world.short(each.topic): list(each.partitions) for each in assignment.assigned_partitions}
    return world.show(owned) if owned else "an empty assignment"


def show_consumer_group(world: World, group: consumer.DescribedGroup) -> Iterator[str]:
    """Yields a line for the group and one for each member."""
    epochs = f"epoch {group.group_epoch}, assignment epoch {group.assignment_epoch}"
    yield f"consumer {group.group_state}, {epochs}, {group.assignor_name}"
    yield from sorted(_consumer_member(world, member) for member in group.members)


def _consumer_member(world: World, member: consumer.Member) -> str:
    name = _name(world, member.member_id, member.instance_id, member.client_id)
    kind = "" if member.member_type == 1 else f" {MEMBER_TYPES[member.member_type]}"
    topics = ",".join(sorted(map(world.short, member.subscribed_topic_names)))
    regex = f"regex {world.short(member.subscribed_topic_regex)}" if member.subscribed_topic_regex else ""
    if member.subscribed_topic_regex is None:
        regex = "no regex"
    rack = "" if member.rack_id is None else f" in rack {member.rack_id}"
    of = " and ".join(filter(None, (topics, regex))) or "nothing"
    owned, target = _named(world, member.assignment), _named(world, member.target_assignment)
    moving = "" if owned == target else f", target {world.show(target)}"
    return f"  {name}{kind}{rack} epoch {member.member_epoch} of {of}, owns {world.show(owned)}{moving}"


def _named(world: World, assignment: consumer.Assignment) -> Partitions:
    for each in assignment.topic_partitions:
        assert world.topic_name(each.topic_id) in (world.short(each.topic_name), f"new {world.short(each.topic_name)}")
    return {world.topic_name(each.topic_id): sorted(each.partitions) for each in assignment.topic_partitions}


def show_error(code: int) -> str:
    """Returns Kafka's name of an error code."""
    return "ok" if not code else ErrorCode(code).name
