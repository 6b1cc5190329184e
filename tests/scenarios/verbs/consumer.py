"""Requests of members of consumer groups (KIP-848): ConsumerGroupHeartbeat and ConsumerGroupDescribe.

A: consumer-join events,payments regex=ev.* assignor=range rebalance=60s instance=a rack=r id=none v=0
A: consumer-heartbeat                      (stays alive; unchanged fields are left out)
A: consumer-heartbeat owns=assigned        (its partitions; also owns=events:0-2 and owns=nothing)
A: consumer-heartbeat topics=events epoch=previous assignor=... regex=... rebalance=... instance=... id=...
A: consumer-leave                          (epoch=-2: a static member that will come back)
admin: consumer-describe GROUP...
"""

from __future__ import annotations

from itertools import chain

from tests.scenarios.states import show_consumer_group, show_error
from tests.scenarios.values import Arguments, Partitions, milliseconds, partitions, show_milliseconds
from tests.scenarios.world import Ask, Member

from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_group_describe_response import ConsumerGroupDescribeResponse
from klamm.protocol.schema.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from klamm.protocol.schema.consumer_group_heartbeat_response import Assignment, ConsumerGroupHeartbeatResponse

__all__ = ["consumer_describe", "consumer_heartbeat", "consumer_join", "consumer_leave"]

HEARTBEAT, DESCRIBE = 1, 1


def consumer_join(member: Member, arguments: Arguments) -> Ask:
    """Builds a member's first heartbeat, which contains all fields."""
    topics = arguments.word("nothing")
    # A client creates its member id once; before version 1 the coordinator creates it.
    version = arguments.number("v", HEARTBEAT)
    if arguments.given("id") is None and not member.member_id and version >= 1:
        member.world.learn_id(member, f"{member.world.prefix}{member.name}")
    member.assigned = {}
    fields = {"epoch": "0", "owns": "nothing", "rebalance": "60s", "topics": topics}
    return _heartbeat(member, arguments, fields, version)


def consumer_heartbeat(member: Member, arguments: Arguments) -> Ask:
    """Builds a heartbeat; a field that is left out has not changed."""
    return _heartbeat(member, arguments, {}, arguments.number("v", HEARTBEAT))


def consumer_leave(member: Member, arguments: Arguments) -> Ask:
    """Builds a member's last heartbeat, with which the member leaves."""
    return _heartbeat(member, arguments, {"epoch": "-1"}, arguments.number("v", HEARTBEAT))


def _heartbeat(member: Member, arguments: Arguments, defaults: dict[str, str], version: int) -> Ask:
    world = member.world

    def value(name: str) -> str | None:
        given = arguments.given(name)
        text = defaults.get(name) if given is None else given
        return None if text == "null" else text

    topics, owns, rebalance, regex = value("topics"), value("owns"), value("rebalance"), value("regex")
    epoch = arguments.number("epoch", int(defaults.get("epoch", member.generation)))
    owned = None if owns is None else member.assigned if owns == "assigned" else partitions(owns)
    given_id = arguments.given("id")
    request = ConsumerGroupHeartbeatRequest(
        group_id=world.group_id,
        member_id=member.member_id if given_id is None else world.id_of(given_id),
        member_epoch=epoch,
        instance_id=arguments.get("instance"),
        rack_id=value("rack"),
        rebalance_timeout_ms=-1 if rebalance is None else milliseconds(rebalance),
        subscribed_topic_names=None
        if topics is None
        else [world.long(topic) for topic in topics.split(",") if topic != "nothing"],
        subscribed_topic_regex=(None if regex is None else world.prefix + regex if regex else ""),
        server_assignor=value("assignor"),
        topic_partitions=None
        if owned is None
        else [TopicPartitions(topic_id=world.topic_id(topic), partitions=each) for topic, each in owned.items()],
    )
    return Ask(
        request,
        version,
        lambda response: _tell_heartbeat(member, response),
        lambda response: _learn_heartbeat(member, response),
    )


def _learn_heartbeat(member: Member, response: Message) -> None:
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    if response.error_code:
        return
    if response.member_id is not None and response.member_epoch >= 0:
        member.world.learn_id(member, response.member_id)
    member.generation = response.member_epoch
    if response.assignment is not None:
        member.assigned = _assigned(member, response.assignment)


def _assigned(member: Member, assignment: Assignment) -> Partitions:
    return member.world.by_name({each.topic_id: each.partitions for each in assignment.topic_partitions})


def _tell_heartbeat(member: Member, response: Message) -> str:
    assert isinstance(response, ConsumerGroupHeartbeatResponse)
    world = member.world
    if response.error_code:
        told = show_error(response.error_code)
        return told if response.error_message is None else f"{told} {world.short(response.error_message)!r}"
    told = f"ok, member {world.name_of(response.member_id or '')}, epoch {response.member_epoch}"
    told += f", again in {show_milliseconds(response.heartbeat_interval_ms)}"
    if response.assignment is not None:
        told += f", assignment {world.show(_assigned(member, response.assignment))}"
    return told


def consumer_describe(member: Member, arguments: Arguments) -> Ask:
    """Builds a ConsumerGroupDescribe request."""
    world = member.world
    groups = arguments.words() or [world.group]
    request = ConsumerGroupDescribeRequest(group_ids=[world.long(group) for group in groups])

    def tell(response: Message) -> str:
        assert isinstance(response, ConsumerGroupDescribeResponse)
        told = []
        for group in response.groups:
            state = (
                [f"{show_error(group.error_code)} {world.short(group.error_message or '')!r}"]
                if group.error_code
                else show_consumer_group(world, group)
            )
            told.append(" | ".join(chain([world.short(group.group_id) or "none"], state)))
        return "; ".join(told)

    return Ask(request, arguments.number("v", DESCRIBE), tell)
