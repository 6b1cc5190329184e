"""Groups of the consumer protocol (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe, the other group APIs."""

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
"""Assignors go by the ids of members, so only ids that members make themselves get the same from both brokers."""


def topics_of(talk: Talk) -> tuple[Topic, Topic]:
    """Four partitions and one, for conversations that only subscribe to them."""
    return talk.shared_topic("four", 4), talk.shared_topic("one", 1)


def assignment(topic: Topic, partitions: Sequence[int]) -> bytes:
    """What a classic member is assigned. Who has something keeps it; among others, ids would decide who gets what."""
    part = TopicPartition(topic=topic.name, partitions=list(partitions))
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=[part]))


@conversation(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def consumer_heartbeat_badly(talk: Talk) -> None:
    """Requests that say too little, too much, or what can't be."""
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
    """A first member: joins, beats, tells everything again, changes its mind, joins again and leaves."""
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
    """A second member gets partitions when the first has given them up; the first one's old epoch holds meanwhile."""
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
    # The answer got lost: the member comes with the epoch it had before.
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
    """Each gets of its own topics only; changes touch who is concerned."""
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
    """What most members want is used, and the default where none wants any.

    There is one topic only: the order in which Kafka's uniform takes several depends on their ids.
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
    """Leaves for a while and comes back under another id; who takes its place too early is refused, who is replaced is
    fenced (KIP-345)."""
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
    """Topics by a regular expression: those there are, beside names, changed, unset, wrong."""
    apples, pears = talk.topic("apples", 2), talk.topic("pears", 1)
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
    """The group's own session and interval hold; who says nothing for so long is gone, and the other has its share."""
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
    """Who keeps what it was asked to give up beyond its rebalance timeout is fenced, though it beats (KIP-848)."""
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
    """An empty classic group becomes a consumer group; so does one of consumers, whose members go on; others stay."""
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
    """A group in every state it passes; groups there are not, and groups of another kind."""
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
    """A group that is being upgraded tells who speaks which protocol (KIP-1099)."""
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
    """Consumers of the classic protocol may join a group of the new one; others may not."""
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
    """Members of the consumer protocol don't beat this way."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    one = ConsumerMember(talk, "one", group)
    one.join(four)
    classic = Member(talk, "classic", group)
    classic.heartbeat(None, member_id=one.member_id, generation=one.epoch)
    classic.heartbeat(None, member_id="nobody", generation=one.epoch)


@conversation(ApiKey.SYNC_GROUP)
def sync_with_a_consumer_group(talk: Talk) -> None:
    """Members of the consumer protocol don't sync."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    one = ConsumerMember(talk, "one", group)
    one.join(four)
    classic = Member(talk, "classic", group)
    classic.sync(None, member_id=one.member_id, generation=one.epoch)
    classic.sync(None, member_id="nobody", generation=one.epoch)


@conversation(ApiKey.LEAVE_GROUP)
def leave_a_consumer_group(talk: Talk) -> None:
    """An administrator may remove members of the consumer protocol by instance."""
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
    """Epochs present, past and future; members there are and are not; groups with members and empty."""
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
    """Since version 9 a member may say who it is, and is told when it is not (KIP-848)."""
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
    """Those of topics that somebody subscribed to stay."""
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
    """Their states and their type."""
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
    """It isn't one."""
    four, _ = topics_of(talk)
    group = talk.name("g")
    ConsumerMember(talk, "one", group).join(four)
    talk.ask(DescribeGroupsRequest(groups=[group]))


@conversation(ApiKey.DELETE_GROUPS)
def delete_consumer_groups(talk: Talk) -> None:
    """An empty one goes, with its offsets; one with members stays."""
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
