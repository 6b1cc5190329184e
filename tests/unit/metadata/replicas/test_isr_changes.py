"""Tests what a leader may change about the in-sync replicas (AlterPartition)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from klamm.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from klamm.metadata.replicas.isr_changes import IsrProposal, plan_isr_change, plan_isr_changes
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId

TOPIC_ID = TopicId(bytes(range(16)))
ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
EPOCHS = {1: 10, 2: 20, 3: 30}


def image(*, isr: tuple[BrokerId, ...] = (ONE, TWO), **brokers: BrokerImage) -> MetadataImage:
    """Returns a topic with one partition, led by broker 1 in leader epoch 4 and partition epoch 6."""
    partition = PartitionImage(PartitionIndex(0), ONE, LeaderEpoch(4), (ONE, TWO, THREE), isr, 6)
    topic = TopicImage("orders", TOPIC_ID, (partition,), {"min.insync.replicas": "2"})
    live = {BrokerId(each): BrokerImage(BrokerId(each), "h", 9092, None, epoch) for each, epoch in EPOCHS.items()}
    live |= {broker.id: broker for broker in brokers.values()}
    return MetadataImage(topics={"orders": topic}, topics_by_id={TOPIC_ID: topic}, brokers=live, registrations=live)


def proposal(*isr: int, **others: Any) -> IsrProposal:
    members = [(BrokerId(each), EPOCHS.get(each, -1)) for each in isr]
    return IsrProposal(TOPIC_ID, PartitionIndex(0), ONE, LeaderEpoch(4), 6, members)._replace(**others)


def test_replica_joins() -> None:
    """The change depends on the runs of the leader and of the replica that joins."""
    plan = plan_isr_change(image(), proposal(1, 2, 3))
    assert (plan.result.isr, plan.result.leader_epoch, plan.result.partition_epoch) == ((ONE, TWO, THREE), 4, 7)
    assert sorted(plan.reads) == ["live/1", "live/3"]
    assert len(plan.changes) == 1


def test_replica_leaves_and_stays_eligible() -> None:
    """With fewer in-sync replicas than required, nothing more is committed without it."""
    plan = plan_isr_change(image(), proposal(1))
    assert (plan.result.isr, plan.result.elr) == ((ONE,), (TWO,))


def test_same_replicas_change_nothing() -> None:
    """Nothing is written."""
    assert not plan_isr_change(image(), proposal(1, 2)).changes


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (proposal(1, topic_id=TopicId(bytes(16))), ErrorCode.UNKNOWN_TOPIC_ID),
        (proposal(1, index=PartitionIndex(1)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (proposal(1, leader_epoch=LeaderEpoch(3)), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal(1, leader_epoch=LeaderEpoch(5)), ErrorCode.NOT_CONTROLLER),
        (proposal(1, partition_epoch=7), ErrorCode.NOT_CONTROLLER),
        (proposal(2, leader=TWO), ErrorCode.INVALID_REQUEST),
        (proposal(1, partition_epoch=5), ErrorCode.INVALID_UPDATE_VERSION),
        (proposal(2, 3), ErrorCode.INVALID_REQUEST),
        (proposal(1, 4), ErrorCode.INVALID_REQUEST),
        (proposal(1, 1), ErrorCode.INVALID_REQUEST),
        (proposal(isr=[(ONE, 10), (THREE, 29)]), ErrorCode.INELIGIBLE_REPLICA),
    ],
)
def test_refusals(wanted: IsrProposal, code: ErrorCode) -> None:
    """Each has the error code of Kafka's controller; a run that is over can't join (KIP-903)."""
    with pytest.raises(KafkaError) as refused:
        plan_isr_change(image(), wanted)
    assert refused.value.code is code


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (proposal(1, leader_epoch=LeaderEpoch(3), partition_epoch=7), ErrorCode.NOT_CONTROLLER),
        (proposal(2, leader=TWO, leader_epoch=LeaderEpoch(5)), ErrorCode.NOT_CONTROLLER),
        (proposal(2, leader=TWO, leader_epoch=LeaderEpoch(3)), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal(1, leader_epoch=LeaderEpoch(3), partition_epoch=5), ErrorCode.FENCED_LEADER_EPOCH),
        (proposal(2, leader=TWO, partition_epoch=5), ErrorCode.INVALID_REQUEST),
        (proposal(1, 4, partition_epoch=5), ErrorCode.INVALID_UPDATE_VERSION),
        (proposal(isr=[(THREE, 29)]), ErrorCode.INVALID_REQUEST),
    ],
)
def test_first_refusal_decides(wanted: IsrProposal, code: ErrorCode) -> None:
    """If several checks fail, the code is that of the first one, in the order of Kafka's controller."""
    with pytest.raises(KafkaError) as refused:
        plan_isr_change(image(), wanted)
    assert refused.value.code is code


@pytest.mark.parametrize(("isr", "is_recovering"), [((1, 2), False), ((1,), True)])
def test_change_of_the_in_sync_replicas_ends_the_recovery(isr: tuple[int, ...], is_recovering: bool) -> None:
    """After an unclean election the leader is alone in sync. With a second replica in sync it has recovered (KIP-704),
    and without a change nothing is written."""
    before = image(isr=(ONE,))
    (topic,) = before.topics.values()
    topic = replace(topic, partitions=(replace(topic.partitions[0], is_recovering=True),))
    before = replace(before, topics={"orders": topic}, topics_by_id={TOPIC_ID: topic})
    plan = plan_isr_change(before, proposal(*isr))
    assert (plan.result.is_recovering, bool(plan.changes)) == (is_recovering, not is_recovering)


def test_broker_that_stops_or_has_gone_cannot_join() -> None:
    """KIP-841: otherwise it would be elected although it hands over."""
    stopping = replace_broker(is_stopping=True)
    with pytest.raises(KafkaError, match="about to stop"):
        plan_isr_change(image(three=stopping), proposal(1, 2, 3))
    gone = image()
    gone = replace(gone, brokers={each: broker for each, broker in gone.brokers.items() if each != THREE})
    with pytest.raises(KafkaError, match="not live"):
        plan_isr_change(gone, proposal(1, 2, 3))


def wide_image(count: int) -> MetadataImage:
    """Returns the image with a topic of so many partitions."""
    small = image()
    (topic,) = small.topics.values()
    partitions = tuple(replace(topic.partitions[0], index=PartitionIndex(index)) for index in range(count))
    topic = replace(topic, partitions=partitions)
    return replace(small, topics={"orders": topic}, topics_by_id={TOPIC_ID: topic})


def at(index: int, *isr: int, **others: Any) -> IsrProposal:
    return proposal(*isr, index=PartitionIndex(index), **others)


def test_changes_of_several_partitions_share_a_transaction() -> None:
    """A key that several changes need is in the transaction once. A refused proposal does not hinder the others."""
    wanted = [at(0, 1, 2, 3), at(1, 1), at(2, 1, 2, 3, partition_epoch=5), at(3, 1, 2), at(4, 1)]
    plan = plan_isr_changes(wide_image(5), wanted, room=20)
    assert [each.isr if isinstance(each, PartitionImage) else each.code for each in plan.result] == [
        (ONE, TWO, THREE),
        (ONE,),
        ErrorCode.INVALID_UPDATE_VERSION,
        (ONE, TWO),
        (ONE,),
    ]
    keys = [change.key for change in plan.changes]
    assert len(keys) == len(set(keys)) == 4  # three partitions, and the configs that guard eligible replicas
    assert sorted(plan.reads) == ["live/1", "live/3", "topics/orders"]


@pytest.mark.parametrize(("room", "decided"), [(1, 1), (3, 1), (4, 2), (11, 9), (12, 10), (99, 10)])
def test_transaction_takes_as_many_changes_as_it_has_room_for(room: int, decided: int) -> None:
    """The others follow in the next transactions. A change that is alone too large is left to the store."""
    plan = plan_isr_changes(wide_image(10), [at(index, 1, 2, 3) for index in range(10)], room)
    assert len(plan.result) == len(plan.changes) == decided
    assert sorted(plan.reads) == ["live/1", "live/3"]


def test_second_proposal_for_a_partition_is_left_for_the_next_transaction() -> None:
    """It must be decided on the image that the first one leads to."""
    plan = plan_isr_changes(image(), [proposal(1, 2, 3), proposal(1)], room=20)
    assert len(plan.result) == 1


def replace_broker(**fields: Any) -> BrokerImage:
    return BrokerImage(THREE, "h", 9092, None, 30)._replace(**fields)
