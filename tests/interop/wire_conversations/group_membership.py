"""Conversations about the members of a group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup."""

from __future__ import annotations

from tests.interop.wire_conversations.members import Member, leave_request, subscription, wait_a_moment, wait_for_group
from tests.interop.wire_conversations.talk import Talk, conversation

from klamm.protocol.api import ApiKey

STATIC_SINCE = 5


@conversation(ApiKey.JOIN_GROUP)
def join_alone(talk: Talk) -> None:
    """Makes a first member join, and join again with the same and with other protocols."""
    member = Member(talk, "one", talk.name("g"))
    member.join(None, reason="because")
    member.join(None)
    member.sync(assignments={member.member_id: b"all"})
    member.join(None)
    member.heartbeat()
    member.sync(assignments={member.member_id: b"all"})
    member.join(None, protocols={"range": subscription("other")})
    member.heartbeat()
    member.leave()
    member.join(None)


@conversation(ApiKey.JOIN_GROUP)
def join_badly(talk: Talk) -> None:
    """Joins with invalid names, timeouts, member ids and protocols."""
    member = Member(talk, "one", talk.name("g"))

    def join(**fields: object) -> None:
        member.begin_join(None, **fields)  # type: ignore[arg-type]  # whatever a request may hold
        member.end_join()
        member.member_id = ""

    join(group_id="")
    join(session_timeout_ms=99)
    join(session_timeout_ms=1_800_001)
    join(session_timeout_ms=-1)
    join(member_id="nobody")
    join(protocols={})
    join(protocol_type="")
    join(protocols={}, member_id="nobody")
    if talk.version >= 4:
        member.begin_join(None)
        member.end_join()
        pending = member.member_id
        join(member_id=pending, protocols={})
        join(member_id=pending, protocol_type="")
        join(member_id=pending, session_timeout_ms=1)
        join(member_id=pending)
        join(member_id=pending, protocols={"other": subscription("")})


@conversation(ApiKey.JOIN_GROUP)
def join_together(talk: Talk) -> None:
    """Makes two members join and choose a protocol; the leader learns of both. A member without a common protocol is
    refused."""
    group = talk.name("g")
    one, two, three = (Member(talk, name, group) for name in ("one", "two", "three"))
    reverse = {"roundrobin": subscription("rr2"), "range": subscription("r2")}
    one.join(None)
    one.sync(assignments={one.member_id: b"all"})
    two.begin_join(None, protocols=reverse)
    if talk.version >= 4:
        two.end_join()
        two.begin_join(None, protocols=reverse)
    wait_for_group(talk, group, "PreparingRebalance", 2)
    one.heartbeat()
    one.sync(assignments={one.member_id: b"all"})
    one.join(None)
    two.end_join()
    two.begin_sync()
    one.heartbeat()
    two.talk.note("generations", one.generation == two.generation)
    one.sync(assignments={one.member_id: b"half", two.member_id: b"rest"})
    two.end_sync()
    three.begin_join(None, protocol_type="connect")
    three.end_join()
    three.begin_join(None, protocols={"sticky": subscription("")})
    three.end_join()
    two.begin_join(None, protocols=reverse)
    two.end_join()
    one.begin_join(None, protocols={"range": subscription("changed")})
    wait_for_group(talk, group, "PreparingRebalance", 2)
    two.heartbeat()
    two.leave()
    one.end_join()


@conversation(ApiKey.JOIN_GROUP, since=STATIC_SINCE)
def join_as_a_static_member(talk: Talk) -> None:
    """Makes a static member return, uses an instance id twice, and combines ids that don't match (KIP-345)."""
    group = talk.name("g")
    one, two = Member(talk, "one", group, "first"), Member(talk, "two", group, "second")
    one.join(None)
    one.sync(assignments={one.member_id: b"all"})
    again = Member(talk, "again", group, "first")
    again.join(None)
    one.heartbeat()
    one.join(None)
    again.heartbeat()
    again.sync(assignments={again.member_id: b"all"})
    one.member_id = again.member_id
    one.heartbeat(instance="second")
    one.heartbeat(instance="unknown")
    one.heartbeat(instance=None)
    two.begin_join(None)
    wait_for_group(talk, group, "PreparingRebalance", 2)
    again.join(None)
    two.end_join()
    again.begin_sync(assignments={again.member_id: b"half", two.member_id: b"rest"})
    two.sync()
    again.end_sync()
    twice = Member(talk, "twice", group, "second")
    twice.join(None)
    twice.sync()
    changed = Member(talk, "changed", group, "second")
    changed.join(None, protocols={"range": subscription("changed"), "roundrobin": subscription("rr")})
    again.heartbeat()
    moved = Member(talk, "moved", group, "second")
    moved.join(None, protocols={"roundrobin": subscription("rr"), "range": subscription("r", "other")})
    again.heartbeat()
    changed.begin_join(None, member_id="unknown")
    changed.end_join()


@conversation(ApiKey.JOIN_GROUP, since=STATIC_SINCE)
def join_as_a_static_member_while_one_waits(talk: Talk) -> None:
    """Joins with the same instance id twice in a rebalance; the first waiting member is fenced."""
    group = talk.name("g")
    keeper = Member(talk, "keeper", group)
    keeper.join(None)
    keeper.sync(assignments={keeper.member_id: b"all"})
    one, two = Member(talk, "one", group, "first"), Member(talk, "two", group, "first")
    one.begin_join(None)
    wait_for_group(talk, group, "PreparingRebalance", 2)
    two.begin_join(None)
    one.end_join()
    keeper.join(None)
    two.end_join()
    two.begin_sync()
    wait_a_moment()
    three = Member(talk, "three", group, "first")
    three.begin_join(None)
    two.end_sync()
    keeper.heartbeat()
    keeper.join(None)
    three.end_join()


@conversation(ApiKey.SYNC_GROUP)
def sync(talk: Talk) -> None:
    """Syncs as the leader, as a follower before and after the leader, repeatedly, and with invalid fields."""
    group = talk.name("g")
    one = Member(talk, "one", group)
    one.sync(None, member_id="nobody")
    one.join()
    one.sync(None, generation=one.generation + 1)
    one.sync(None, generation=one.generation - 1)
    one.sync(None, member_id="nobody")
    one.sync(None, member_id="")
    one.sync(None, group_id="")
    one.sync(None, group_id=talk.name("unknown"))
    one.sync(None, protocol_type="connect", assignments={one.member_id: b"all"})
    one.sync(None, protocol_name="sticky", assignments={one.member_id: b"all"})
    one.sync(None, protocol_type=None, protocol_name=None, assignments={one.member_id: b"all", "nobody": b"x"})
    one.sync(None)
    one.sync(None, protocol_type="connect")
    two = Member(talk, "two", group)
    two.begin_join(4)
    two.end_join()
    two.begin_join(4)
    wait_for_group(talk, group, "PreparingRebalance", 2)
    one.sync(None, assignments={one.member_id: b"late"})
    one.join()
    two.end_join()
    two.begin_sync(None)
    wait_a_moment()
    one.sync(None, assignments={one.member_id: b"half"})
    two.end_sync()
    two.sync(None)
    two.sync(None, generation=1)


@conversation(ApiKey.SYNC_GROUP, since=3)
def sync_as_a_static_member(talk: Talk) -> None:
    """Syncs with instance ids and member ids that don't match."""
    one = Member(talk, "one", talk.name("g"), "first")
    one.join()
    one.sync(None, member_id="another")
    one.sync(None, instance="unknown")
    one.sync(None, instance="unknown", member_id="nobody")
    one.sync(None, member_id="")
    one.sync(None, assignments={one.member_id: b"all"})
    one.sync(None, instance=None)


@conversation(ApiKey.HEARTBEAT)
def heartbeat(talk: Talk) -> None:
    """Sends heartbeats in every state of the group, and with invalid fields."""
    group = talk.name("g")
    one = Member(talk, "one", group)
    one.heartbeat(None, member_id="nobody")
    one.heartbeat(None, group_id="")
    one.join()
    one.heartbeat(None)
    one.heartbeat(None, generation=7)
    one.heartbeat(None, generation=-1)
    one.heartbeat(None, member_id="nobody")
    one.heartbeat(None, member_id="nobody", generation=7)
    one.heartbeat(None, member_id="")
    one.sync(assignments={one.member_id: b"all"})
    one.heartbeat(None)
    one.heartbeat(None, instance="first")
    one.leave()
    one.heartbeat(None)


@conversation(ApiKey.HEARTBEAT, until=0)
def session_that_runs_out(talk: Talk) -> None:
    """Lets the session of a silent member expire, and a member id that no member used."""
    group = talk.name("g")
    one, two = Member(talk, "one", group), Member(talk, "two", group)
    # The group is empty when the session of `one` expires. The id of `two` must have expired by then, and no request
    # shows that. The timeout of `two` begins later, so the timeout is much shorter.
    one.join(session_timeout_ms=1000)
    one.sync(assignments={one.member_id: b"all"})
    two.begin_join(session_timeout_ms=200)
    two.end_join()
    wait_for_group(talk, group, "Empty", 0)
    one.heartbeat()
    one.join()
    two.join()


@conversation(ApiKey.LEAVE_GROUP)
def leave(talk: Talk) -> None:
    """Makes members, unknown members, several members and members without an id leave."""
    group = talk.name("g")
    one = Member(talk, "one", group)
    one.join()
    talk.ask(leave_request(group, ("nobody", None)))
    talk.ask(leave_request(talk.name("unknown"), (one.member_id, None)))
    talk.ask(leave_request("", (one.member_id, None)))
    talk.ask(leave_request(group, ("", None)))
    if talk.version >= 3:
        talk.ask(leave_request(group, reason="none"))
    talk.ask(leave_request(group, (one.member_id, None), reason="done"))
    one.heartbeat()
    talk.ask(leave_request(group, (one.member_id, None)))
    two = Member(talk, "two", group)
    two.begin_join(4)
    two.end_join()
    talk.ask(leave_request(group, (two.member_id, None)))
    two.begin_join(4)
    two.end_join()


@conversation(ApiKey.LEAVE_GROUP, since=3)
def leave_by_instance(talk: Talk) -> None:
    """Makes static members leave by both ids, by the instance id alone, by ids that don't match, and many at once
    (KIP-345)."""
    group = talk.name("g")
    one = Member(talk, "one", group, "first")
    one.join()
    talk.ask(leave_request(group, ("another", "first"), ("", "unknown"), ("nobody", "unknown"), ("nobody", None)))
    talk.ask(leave_request(group, (one.member_id, None)))
    one.heartbeat()
    again = Member(talk, "again", group, "first")
    again.join()
    talk.ask(leave_request(group, ("", "first"), ("", "first"), (again.member_id, "first")))
    again.heartbeat()
    one.member_id = ""
    one.join()
    talk.ask(leave_request(group, (one.member_id, "first"), reason="done"))
    one.heartbeat()
