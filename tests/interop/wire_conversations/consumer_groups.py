"""Conversations about consumer groups (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe, the other group
APIs."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.interop.wire_conversations.consumer_members import (
    REBALANCE_TIMEOUT_MS,
    ConsumerMember,
    owned,
    set_group,
    wait_for_epochs,
)
from tests.interop.wire_conversations.group_offsets import STRANGE, commit, fetch, part
from tests.interop.wire_conversations.members import Member, leave_request, subscription, wait_for_group
from tests.interop.wire_conversations.peer import Topic
from tests.interop.wire_conversations.talk import Talk, conversation

from klamm.protocol.api import ApiKey
from klamm.protocol.consumer_protocol import encode_assignment
from klamm.protocol.schema.consumer_group_describe_request import ConsumerGroupDescribeRequest
from klamm.protocol.schema.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from klamm.protocol.schema.delete_groups_request import DeleteGroupsRequest
from klamm.protocol.schema.describe_groups_request import DescribeGroupsRequest
from klamm.protocol.schema.list_groups_request import ListGroupsRequest
from klamm.protocol.schema.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)

REGEX_SINCE = 1
OWN_IDS_SINCE = 1
"""From this version on, members choose their own ids. Assignments depend on member ids, so they are comparable only
then."""


def topics_of(talk: Talk) -> tuple[Topic, Topic]:
    """Returns a topic with four partitions and one with one partition, for conversations that only subscribe to
    them."""
    return talk.shared_topic("four", 4, for_groups=True), talk.shared_topic("one", 1, for_groups=True)


def assignment(topic: Topic, partitions: Sequence[int]) -> bytes:
    """Returns the assignment of a classic member. Members keep what they own; otherwise the assignment would depend on
    ids."""
    part = TopicPartition(topic=topic.name, partitions=list(partitions))
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[part]))


@conversation(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def consumer_heartbeat_badly(talk: Talk) -> None:
    """Sends heartbeats with missing, superfluous and invalid fields."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    member = ConsumerMember(talk, "one", group)
    member_id = talk.name("one")
    member.join(four, group_id="")
    member.join(four, member_id="")
    member.join(four, instance_id="")
    member.join(four, rack_id="")
    member.join(four, rebalance_timeout_ms=-1)
    member.join(four, topic_partitions=None)
    member.join(four, topic_partitions=owned((four, [0])))
    member.join(subscribed_topic_names=None)
    member.join(four, server_assignor="sticky", group_id=talk.name("other"))
    member.join(four, member_epoch=-3)
    member.join(four, member_epoch=-2)
    if talk.version >= 1:
        member.join(four, subscribed_topic_regex="(", group_id=talk.name("regex"))
    unknown = talk.name("unknown")
    for epoch in (1, -1):
        member.heartbeat(group_id=unknown, member_id=member_id, member_epoch=epoch)
        member.heartbeat(group_id=unknown, member_id="", member_epoch=epoch)
    member.heartbeat(group_id=unknown, member_id=member_id, member_epoch=-2, instance_id="first")
    member.join(four)
    for epoch in (1, -1):
        member.heartbeat(member_id="nobody", member_epoch=epoch)
    member.heartbeat(member_id="nobody", member_epoch=-2, instance_id="first")
    member.heartbeat(member_epoch=member.epoch + 1)
    member.heartbeat(member_epoch=member.epoch - 1, topic_partitions=owned((four, [0])))
    member.heartbeat(instance_id="first")
    member.heartbeat(server_assignor="sticky")
    member.heartbeat(server_assignor="")
    member.own((STRANGE, [0]))
    member.own((four, [99]))
    member.heartbeat()


@conversation(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def consumer_alone(talk: Talk) -> None:
    """Makes a first member join, send heartbeats, repeat its full state, change its subscription, join again and
    leave."""
    four, one = topics_of(talk)
    member = ConsumerMember(talk, "one", talk.name("g"))
    member.join(four)
    member.own((four, range(4)))
    member.heartbeat()
    member.heartbeat(
        rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
        subscribed_topic_names=[four.name],
        topic_partitions=owned((four, range(4))),
    )
    member.heartbeat(subscribed_topic_names=[four.name, one.name, talk.name("absent")])
    member.own((four, range(4)), (one, [0]))
    member.heartbeat(subscribed_topic_names=[one.name])
    member.own((one, [0]))
    member.heartbeat(subscribed_topic_names=[])
    member.own()
    member.heartbeat(subscribed_topic_names=[one.name, one.name], rack_id="r")
    member.join(one)
    member.join(four, one, rebalance_timeout_ms=1)
    member.leave()
    member.heartbeat()
    member.leave()
    member.join(four)


@conversation(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def consumers_hand_over(talk: Talk) -> None:
    """Makes a second member get partitions after the first has given them up; the first member's old epoch is valid
    meanwhile."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    one, two = ConsumerMember(talk, "one", group), ConsumerMember(talk, "two", group)
    one.join(four)
    one.own((four, range(4)))
    two.join(four)
    kept = one.heartbeat()
    assert kept.assignment is not None
    (left,) = kept.assignment.topic_partitions
    two.heartbeat()
    one.heartbeat()
    one.own((four, range(4)))
    one.heartbeat(member_epoch=one.epoch, topic_partitions=owned((four, left.partitions)))
    two.heartbeat()
    two.own((four, sorted(set(range(4)) - set(left.partitions))))
    one.heartbeat()
    # As after a lost answer, the member sends its previous epoch.
    one.heartbeat(member_epoch=1, topic_partitions=owned((four, left.partitions)))
    one.heartbeat(member_epoch=1, topic_partitions=owned((four, range(4))))
    one.join(four)
    two.heartbeat()
    one.leave()
    two.heartbeat()
    two.own((four, range(4)))
    two.leave()


@conversation(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def consumers_with_different_subscriptions(talk: Talk) -> None:
    """Assigns members only partitions of their own topics; a change affects only the members that it concerns."""
    four, one = topics_of(talk)
    group = talk.name("g")
    all_of_it, some = ConsumerMember(talk, "all", group), ConsumerMember(talk, "some", group)
    some.join(one)
    all_of_it.join(four, one)
    some.own((one, [0]))
    some.own()
    all_of_it.heartbeat()
    all_of_it.own((four, range(4)))
    some.heartbeat(subscribed_topic_names=[four.name])
    all_of_it.heartbeat()
    some.heartbeat()


@conversation(ApiKey.CONSUMER_GROUP_HEARTBEAT, since=OWN_IDS_SINCE)
def consumers_choose_assignors(talk: Talk) -> None:
    """Chooses the assignor that most members request, or the default if no member requests one.

    There is one topic only, because the order in which Kafka's uniform assignor handles several topics depends on their
    ids.
    """
    four, _ = topics_of(talk)
    group = talk.name("g")
    first, second, third = (ConsumerMember(talk, name, group) for name in ("first", "second", "third"))
    first.join(four, server_assignor="range")
    second.join(four)
    first.heartbeat()
    first.own((four, [0, 1]))
    second.heartbeat()
    third.join(four, server_assignor="uniform")
    second.heartbeat(server_assignor="uniform")
    talk.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 0)


@conversation(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def consumer_that_is_static(talk: Talk) -> None:
    """Makes a static member leave temporarily and return with another id. A replacement that comes too early is
    refused, and the replaced member is fenced (KIP-345)."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    one, other = ConsumerMember(talk, "one", group, "first"), ConsumerMember(talk, "other", group)
    one.join(four)
    one.own((four, range(4)))
    other.join(four)
    one.own((four, [0, 1]))
    other.heartbeat()
    early = ConsumerMember(talk, "early", group, "first")
    early.join(four)
    one.heartbeat()
    one.leave(-2)
    one.heartbeat()
    back = ConsumerMember(talk, "back", group, "first")
    back.join(four)
    one.heartbeat()
    one.leave()
    back.heartbeat()
    other.heartbeat()
    back.heartbeat(instance_id="unknown")
    back.heartbeat(instance_id=None)
    back.leave(-2)
    changed = ConsumerMember(talk, "changed", group, "first")
    changed.join(four, subscribed_topic_names=[])
    other.heartbeat()
    changed.leave()
    ConsumerMember(talk, "again", group, "first").join(four)


@conversation(ApiKey.CONSUMER_GROUP_HEARTBEAT, since=REGEX_SINCE)
def consumer_by_regex(talk: Talk) -> None:
    """Subscribes to existing topics by a regular expression, then changes and unsets it, next to names, and sends
    invalid ones."""
    apples, pears = talk.topic("apples", 2), talk.topic("pears", 1)
    for topic in (apples, pears):
        talk.peer.wait_for_groups(topic)
    group = talk.name("g")
    member = ConsumerMember(talk, "one", group)
    member.join(subscribed_topic_names=None, subscribed_topic_regex="(")
    member.join(subscribed_topic_names=None, subscribed_topic_regex=talk.name("a(?=p)"))
    member.join(subscribed_topic_names=None, subscribed_topic_regex=talk.name(".*s"))
    member.beat_until("assigned by regex")
    member.own((apples, [0, 1]), (pears, [0]))
    member.heartbeat(subscribed_topic_regex=talk.name("p.*"))
    member.beat_until("assigned by another", topic_partitions=[])
    member.heartbeat(subscribed_topic_regex="[")
    member.heartbeat(subscribed_topic_regex="", subscribed_topic_names=[apples.name])
    member.own((apples, [0, 1]))
    member.heartbeat(subscribed_topic_regex="", subscribed_topic_names=[])
    talk.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1)


@conversation(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def consumer_whose_session_ends(talk: Talk) -> None:
    """Sets a group's session timeout and heartbeat interval. A silent member is removed, and another member gets its
    share."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    set_group(talk, group, consumer_session_timeout_ms="600", consumer_heartbeat_interval_ms="200")
    silent, other = ConsumerMember(talk, "silent", group), ConsumerMember(talk, "other", group)
    silent.join(four)
    other.join(four)
    other.beat_until("taken over")
    silent.heartbeat()
    silent.join(four)


@conversation(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def consumer_that_does_not_give_up(talk: Talk) -> None:
    """Makes a member keep partitions beyond its rebalance timeout; the member is fenced, although it sends heartbeats
    (KIP-848)."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    keeper, other = ConsumerMember(talk, "keeper", group), ConsumerMember(talk, "other", group)
    keeper.join(four, rebalance_timeout_ms=500)
    keeper.own((four, range(4)))
    other.join(four)
    keeper.own((four, range(4)))
    deadline = time.monotonic() + 0.3
    while time.monotonic() < deadline:
        time.sleep(0.1)
        keeper.own((four, range(4)))
        keeper.talk.transcript.pop()
    other.beat_until("taken over")
    keeper.own((four, range(4)))


@conversation(ApiKey.CONSUMER_GROUP_HEARTBEAT, since=OWN_IDS_SINCE)
def consumer_in_a_classic_group(talk: Talk) -> None:
    """Joins classic groups: an empty group and a group of consumers become consumer groups, and other groups don't."""
    four, _ = topics_of(talk)
    empty, connect = talk.name("empty"), talk.name("connect")
    gone = Member(talk, "gone", empty)
    gone.join()
    gone.leave()
    ConsumerMember(talk, "one", empty).join(four)
    Member(talk, "worker", connect).join(protocol_type="connect")
    ConsumerMember(talk, "two", connect).join(four)
    mixed = talk.name("mixed")
    classic = Member(talk, "classic", mixed)
    protocols = {"range": subscription("r", four.name)}
    classic.join(protocols=protocols)
    classic.sync(assignments={classic.member_id: assignment(four, range(4))})
    joined = ConsumerMember(talk, "joined", mixed)
    joined.join(four)
    strange = talk.name("strange")
    custom = Member(talk, "custom", strange)
    custom.join(protocols={"own": b"\x00"})
    ConsumerMember(talk, "three", strange).join(four)


@conversation(ApiKey.CONSUMER_GROUP_DESCRIBE)
def describe_consumer_groups(talk: Talk) -> None:
    """Describes a group in each of its states, groups that don't exist, and a group of another type."""
    four, one_partition = topics_of(talk)
    group = talk.name("g")

    def describe(*names: str, operations: bool = False) -> None:
        talk.ask(ConsumerGroupDescribeRequest(group_ids=list(names), include_authorized_operations=operations))

    describe(group)
    one, two = ConsumerMember(talk, "one", group, "first"), ConsumerMember(talk, "two", group)
    one.join(four, rack_id="r")
    describe(group)
    one.own((four, range(4)))
    two.join(four, one_partition, server_assignor="range")
    describe(group, operations=True)
    one.heartbeat()
    describe(group)
    one.own((four, [0, 1]))
    two.heartbeat()
    describe(group)
    one.leave(-2)
    describe(group)
    one.leave()
    two.leave()
    describe(group)
    classic = Member(talk, "classic", talk.name("classic"))
    classic.join()
    describe(talk.name("classic"), talk.name("unknown"), "", group, group, operations=True)
    describe()


@conversation(ApiKey.CONSUMER_GROUP_DESCRIBE)
def describe_members_of_both_kinds(talk: Talk) -> None:
    """Describes a group during its upgrade, which shows the protocol of each member (KIP-1099)."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    classic = Member(talk, "classic", group)
    protocols = {"range": subscription("r", four.name)}
    classic.join(protocols=protocols)
    classic.sync(assignments={classic.member_id: assignment(four, range(4))})
    talk.peer.masks.learn_text(classic.member_id, "<classic member>")
    joined = ConsumerMember(talk, "joined", group)
    joined.join(four)
    talk.ask(ConsumerGroupDescribeRequest(group_ids=[group]))
    classic.heartbeat()
    classic.join(protocols=protocols)
    classic.heartbeat()
    talk.ask(ConsumerGroupDescribeRequest(group_ids=[group]))


@conversation(ApiKey.JOIN_GROUP)
def join_a_consumer_group(talk: Talk) -> None:
    """Joins a consumer group with a classic consumer, which is accepted, and with other classic members, which are
    refused."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    ConsumerMember(talk, "one", group).join(four)
    classic = Member(talk, "two", group)

    def join(**fields: object) -> None:
        classic.begin_join(None, **fields)  # type: ignore[arg-type]  # whatever a request may hold
        classic.end_join()

    join(protocol_type="connect")
    join(protocols={"range": b"\x00"})
    join(protocols={})
    join(member_id="nobody", protocols={"range": subscription("r", four.name)})
    classic.join(None, protocols={"range": subscription("r", four.name)})
    classic.sync()
    classic.heartbeat()
    classic.heartbeat(generation=7)
    classic.leave()
    empty = talk.name("empty")
    gone = ConsumerMember(talk, "gone", empty)
    gone.join(four)
    gone.leave()
    Member(talk, "three", empty).join(None, protocols={"range": subscription("r", four.name)})


@conversation(ApiKey.HEARTBEAT)
def heartbeat_to_a_consumer_group(talk: Talk) -> None:
    """Sends a classic heartbeat as a member of the consumer protocol."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    one = ConsumerMember(talk, "one", group)
    one.join(four)
    classic = Member(talk, "classic", group)
    classic.heartbeat(None, member_id=one.member_id, generation=one.epoch)
    classic.heartbeat(None, member_id="nobody", generation=one.epoch)


@conversation(ApiKey.SYNC_GROUP)
def sync_with_a_consumer_group(talk: Talk) -> None:
    """Sends SyncGroup as a member of the consumer protocol."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    one = ConsumerMember(talk, "one", group)
    one.join(four)
    classic = Member(talk, "classic", group)
    classic.sync(None, member_id=one.member_id, generation=one.epoch)
    classic.sync(None, member_id="nobody", generation=one.epoch)


@conversation(ApiKey.LEAVE_GROUP)
def leave_a_consumer_group(talk: Talk) -> None:
    """Removes members of the consumer protocol by instance id, as an administrator does."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    one, two = ConsumerMember(talk, "one", group, "first"), ConsumerMember(talk, "two", group)
    one.join(four)
    two.join(four)
    talk.ask(leave_request(group, ("nobody", None)))
    talk.ask(leave_request(group, (two.member_id, None)))
    two.heartbeat()
    if talk.version >= 3:
        talk.ask(leave_request(group, ("", "unknown"), ("nobody", "first"), ("", "first")))
        one.heartbeat()


@conversation(ApiKey.OFFSET_COMMIT)
def commit_as_a_consumer(talk: Talk) -> None:
    """Commits with present, past and future epochs, as known and unknown members, to groups with and without
    members."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    one, two = ConsumerMember(talk, "one", group), ConsumerMember(talk, "two", group)

    def commits(member: str, epoch: int, partition: int = 0) -> None:
        topics = (four, [part(partition, 7)])
        commit(talk, group, topics, member_id=member, generation_id_or_member_epoch=epoch)

    one.join(four)
    one.own((four, range(4)))
    commits(one.member_id, one.epoch)
    commits(one.member_id, one.epoch + 1)
    commits(one.member_id, one.epoch - 1)
    commits("nobody", one.epoch)
    commits("", -1)
    two.join(four)
    kept = one.heartbeat()
    assert kept.assignment is not None
    (left,) = kept.assignment.topic_partitions
    given = min(set(range(4)) - set(left.partitions))
    commits(one.member_id, 1, given)
    one.own((four, left.partitions))
    two.heartbeat()
    commits(one.member_id, 1, left.partitions[0])
    commits(one.member_id, 1, given)
    commits(one.member_id, one.epoch, given)
    commits(two.member_id, two.epoch, given)
    one.leave()
    two.leave()
    commits(one.member_id, 1)
    commits("", -1)


@conversation(ApiKey.OFFSET_FETCH)
def fetch_as_a_consumer(talk: Talk) -> None:
    """Fetches offsets with member ids and epochs, valid and invalid, which version 9 introduced (KIP-848)."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    one = ConsumerMember(talk, "one", group)
    one.join(four)
    topics = (four, [part(0, 7)])
    commit(talk, group, topics, member_id=one.member_id, generation_id_or_member_epoch=one.epoch, version=9)
    fetch(talk, group, [(four, [0, 1])])
    if talk.version >= 9:
        fetch(talk, group, [(four, [0])], member_id=one.member_id, member_epoch=one.epoch)
        fetch(talk, group, [(four, [0])], member_id=one.member_id, member_epoch=one.epoch + 1)
        fetch(talk, group, [(four, [0])], member_id=one.member_id, member_epoch=0)
        fetch(talk, group, [(four, [0])], member_id="nobody", member_epoch=one.epoch)
        fetch(talk, group, [(four, [0])], member_id=None, member_epoch=-1)
        fetch(talk, group, None, member_id=one.member_id, member_epoch=one.epoch)


@conversation(ApiKey.OFFSET_DELETE)
def delete_offsets_of_a_consumer_group(talk: Talk) -> None:
    """Deletes offsets; the offsets of topics with subscribed members remain."""
    four, one_partition = topics_of(talk)
    group = talk.name("g")
    one = ConsumerMember(talk, "one", group)
    one.join(four)
    for topic in (four, one_partition):
        topics = (topic, [part(0, 7)])
        commit(talk, group, topics, member_id=one.member_id, generation_id_or_member_epoch=one.epoch, version=9)
    asked = [
        OffsetDeleteRequestTopic(name=topic.name, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        for topic in (four, one_partition)
    ]
    talk.ask(OffsetDeleteRequest(group_id=group, topics=asked))
    one.leave()
    talk.ask(OffsetDeleteRequest(group_id=group, topics=asked))
    fetch(talk, group, None, version=9)


@conversation(ApiKey.LIST_GROUPS)
def list_consumer_groups(talk: Talk) -> None:
    """Lists consumer groups by state and by type."""
    four, _ = topics_of(talk)
    stable, reconciling, empty = talk.name("stable"), talk.name("reconciling"), talk.name("empty")
    one = ConsumerMember(talk, "one", stable)
    one.join(four)
    one.own((four, range(4)))
    first, second = ConsumerMember(talk, "first", reconciling), ConsumerMember(talk, "second", reconciling)
    first.join(four)
    second.join(four)
    gone = ConsumerMember(talk, "gone", empty)
    gone.join(four)
    gone.leave()
    wait_for_epochs(talk, empty)
    Member(talk, "classic", talk.name("classic")).join()
    talk.ask(ListGroupsRequest())
    if talk.version >= 4:
        for states in (["Reconciling"], ["Assigning"], ["Stable", "Empty"], ["CompletingRebalance"]):
            talk.ask(ListGroupsRequest(states_filter=states))
    if talk.version >= 5:
        for types in (["consumer"], ["Consumer", "classic"], ["share"]):
            talk.ask(ListGroupsRequest(types_filter=types))


@conversation(ApiKey.DESCRIBE_GROUPS)
def describe_a_consumer_group_as_a_classic_one(talk: Talk) -> None:
    """Sends DescribeGroups for a consumer group."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    ConsumerMember(talk, "one", group).join(four)
    talk.ask(DescribeGroupsRequest(groups=[group]))


@conversation(ApiKey.DELETE_GROUPS)
def delete_consumer_groups(talk: Talk) -> None:
    """Deletes an empty group with its offsets, and tries to delete a group with members."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    one = ConsumerMember(talk, "one", group)
    one.join(four)
    topics = (four, [part(0, 7)])
    commit(talk, group, topics, member_id=one.member_id, generation_id_or_member_epoch=one.epoch, version=9)
    talk.ask(DeleteGroupsRequest(groups_names=[group]))
    one.leave()
    talk.ask(DeleteGroupsRequest(groups_names=[group]))
    talk.ask(DeleteGroupsRequest(groups_names=[group]))
    fetch(talk, group, None, version=9)
    wait_for_group(talk, group, "Dead", 0)
    one.join(four)
