"""Tests that group descriptions of any client become the same kind of picture."""

from __future__ import annotations

from confluent_kafka import ConsumerGroupState, ConsumerGroupType, Node, TopicPartition
from confluent_kafka.admin import ConsumerGroupDescription, MemberAssignment, MemberDescription
from tests.unit.insight.pictures import group, keys, member

from klamm.insight.group.group_picture import picture_of
from klamm.protocol.consumer_protocol import encode_assignment, encode_subscription
from klamm.protocol.schema import consumer_group_describe_response as consumer
from klamm.protocol.schema import consumer_protocol_assignment as assignment
from klamm.protocol.schema import describe_groups_response as classic
from klamm.protocol.schema.consumer_protocol_subscription import ConsumerProtocolSubscription


def _assignment(**topics: list[int]) -> consumer.Assignment:
    return consumer.Assignment(
        topic_partitions=[
            consumer.TopicPartitions(topic_name=topic, partitions=indexes) for topic, indexes in topics.items()
        ]
    )


def test_a_consumer_group_is_described_in_full() -> None:
    """A consumer group's picture has epochs, patterns, targets, and members that still use the classic protocol."""
    picture = picture_of(
        consumer.DescribedGroup(
            group_id="billing",
            group_state="Reconciling",
            group_epoch=7,
            assignment_epoch=6,
            assignor_name="uniform",
            members=[
                consumer.Member(
                    member_id="two",
                    client_id="b",
                    client_host="/10.0.0.2",
                    member_epoch=5,
                    subscribed_topic_names=["orders"],
                    subscribed_topic_regex="",
                    assignment=_assignment(orders=[0, 1]),
                    target_assignment=_assignment(orders=[0], bills=[3]),
                    member_type=0,
                ),
                consumer.Member(member_id="one", client_id="a", subscribed_topic_regex="ord.*", member_type=1),
            ],
        )
    )
    assert (picture.group_id, picture.kind, picture.state) == ("billing", "consumer", "reconciling")
    assert (picture.epoch, picture.assignment_epoch, picture.assignor) == (7, 6, "uniform")
    one, two = picture.members
    assert (one.member_id, one.pattern, one.uses_classic_protocol, two.pattern) == ("one", "ord.*", False, None)
    assert (two.epoch, two.topics, two.uses_classic_protocol) == (5, frozenset({"orders"}), True)
    assert two.missing == keys([3], "bills")
    assert two.surplus == keys([1])
    assert picture.partitions == keys([0, 1]) | keys([3], "bills")
    assert picture.owners["orders", 1] is two


def _classic(protocol_type: str, data: bytes, metadata: bytes) -> classic.DescribedGroup:
    return classic.DescribedGroup(
        group_id="billing",
        group_state="Stable",
        protocol_type=protocol_type,
        protocol_data="range",
        members=[
            classic.DescribedGroupMember(
                member_id="one", client_id="a", group_instance_id="i", member_assignment=data, member_metadata=metadata
            )
        ],
    )


def test_a_classic_group_is_described_by_what_its_members_sent() -> None:
    """A classic group's picture comes from its members' metadata; the leader's assignment is both current and
    target."""
    data = encode_assignment(
        assignment.ConsumerProtocolAssignment(
            assigned_partitions=[assignment.TopicPartition(topic="orders", partitions=[0, 2])]
        )
    )
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=["orders", "bills"]))
    picture = picture_of(_classic("consumer", data, metadata))
    (one,) = picture.members
    assert (picture.kind, picture.state, picture.assignor, picture.epoch) == ("classic", "stable", "range", None)
    assert (one.assigned, one.target, one.topics) == (keys([0, 2]), keys([0, 2]), frozenset({"orders", "bills"}))
    assert one.instance_id == "i"


def test_what_is_not_understood_of_a_classic_group_is_left_out() -> None:
    """Metadata of another protocol or invalid metadata of a classic group is left out."""
    for described in (_classic("connect", b"\x00\x01", b"x"), _classic("consumer", b"\x00", b"\x00")):
        (one,) = picture_of(described).members
        assert (one.assigned, one.topics) == (frozenset(), None)
    joining = classic.DescribedGroup(group_id="g", group_state="PreparingRebalance", protocol_type="consumer")
    assert picture_of(joining).state == "preparing-rebalance"


def test_librdkafka_tells_less() -> None:
    """A description from librdkafka has no epochs and no subscriptions."""
    partitions = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    described = ConsumerGroupDescription(
        "billing",
        False,
        [
            MemberDescription(
                "one", "a", "/10.0.0.1", MemberAssignment(partitions), None, MemberAssignment(partitions[:1])
            )
        ],
        "uniform",
        ConsumerGroupState.STABLE,
        Node(1, "localhost", 9092),
        type=ConsumerGroupType.CONSUMER,
    )
    picture = picture_of(described)
    (one,) = picture.members
    assert (picture.kind, picture.state, picture.epoch, one.epoch, one.topics) == (
        "consumer",
        "stable",
        None,
        None,
        None,
    )
    assert (one.assigned, one.target) == (keys([0, 1]), keys([0]))
    described.type = ConsumerGroupType.CLASSIC
    (one,) = picture_of(described).members
    assert one.target == one.assigned


def test_an_empty_group_has_no_partitions() -> None:
    """An empty group has no partitions, and a member without partitions owns none."""
    assert group().partitions == frozenset()
    assert group(member("one")).owners == {}
