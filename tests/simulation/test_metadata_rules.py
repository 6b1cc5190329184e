"""Tests the rules that worlds of replicas check for each change of a partition in the metadata store."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.simulation.clusters.metadata_rules import (
    changed_partitions,
    check_change,
    check_new_runs,
    check_sets,
    is_unclean,
)
from tests.simulation.violation import Violation

from klamm.metadata.image import NO_BROKER, BrokerImage, LiveBroker, MetadataImage, PartitionImage, TopicImage
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicPartition

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
WHERE = TopicPartition("topic", PartitionIndex(0))
LED = PartitionImage(PartitionIndex(0), ONE, LeaderEpoch(4), (ONE, TWO, THREE), (ONE, TWO), partition_epoch=7)


def _image(
    partition: PartitionImage = LED, *, least: int = 2, live: tuple[BrokerId, ...] = (ONE, TWO)
) -> MetadataImage:
    topic = TopicImage("topic", TopicId(b"t" * 16), (partition,), {"min.insync.replicas": str(least)})
    brokers = {number: BrokerImage(number, "host", 9092, None, 10) for number in live}
    return MetadataImage(
        topics={"topic": topic}, brokers=brokers, live={number: LiveBroker("run", 10) for number in live}
    )


def _change(after: PartitionImage, before: PartitionImage = LED) -> frozenset[BrokerId]:
    after = replace(after, partition_epoch=before.partition_epoch + 1)
    return check_change(_image(after), WHERE, before, after)


def test_sets_of_a_partition_in_order() -> None:
    """No rule is violated while enough replicas are in sync, or while the others are eligible."""
    check_sets(_image())
    check_sets(_image(replace(LED, isr=(ONE,), elr=(TWO,))))
    check_sets(_image(replace(LED, leader=NO_BROKER, isr=(), last_known_leader=TWO)))


@pytest.mark.parametrize(
    ("partition", "least"),
    [
        (replace(LED, isr=(ONE, BrokerId(4))), 2),
        (replace(LED, isr=(ONE,), elr=(ONE,)), 2),
        (replace(LED, isr=(TWO,), elr=(THREE,)), 2),
        (replace(LED, isr=(ONE,), elr=(TWO,)), 1),
    ],
)
def test_sets_out_of_order(partition: PartitionImage, least: int) -> None:
    """An in-sync broker without replica, an eligible replica that is in sync, a leader that is not, and an eligible
    replica without which records are committed are violations."""
    with pytest.raises(Violation):
        check_sets(_image(partition, least=least))


def test_replicas_that_join() -> None:
    """The replicas that a leader adds are returned, an elected leader is not."""
    assert _change(replace(LED, isr=(ONE, TWO)), replace(LED, isr=(ONE,))) == {TWO}
    elected = replace(LED, leader=TWO, leader_epoch=LeaderEpoch(5), isr=(TWO,))
    assert _change(elected, replace(LED, isr=(ONE,), elr=(TWO,))) == frozenset()


def test_reassigned_leader() -> None:
    """A leader that a reassignment removes proposes its successor, which therefore must have fetched."""
    before = replace(LED, isr=(ONE,), adding=(TWO,), removing=(ONE,))
    after = replace(LED, leader=TWO, leader_epoch=LeaderEpoch(5), replicas=(TWO, THREE), isr=(TWO,))
    assert _change(after, before) == {TWO}


@pytest.mark.parametrize(
    "after",
    [
        replace(LED, leader=TWO, isr=(TWO,)),
        replace(LED, leader_epoch=LeaderEpoch(3)),
        replace(LED, isr=(ONE, TWO, THREE)),
        replace(LED, leader=THREE, leader_epoch=LeaderEpoch(5), isr=(THREE,), is_recovering=True),
    ],
)
def test_forbidden_changes(after: PartitionImage) -> None:
    """A leader without a new epoch, an epoch that falls, a replica whose broker is not live, and the election of
    a replica that was neither in sync nor eligible are violations."""
    with pytest.raises(Violation):
        _change(after)


def test_unclean_election() -> None:
    """The last known leader may be elected if the election is recorded as unclean."""
    before = replace(LED, leader=NO_BROKER, isr=(), last_known_leader=TWO)
    after = replace(LED, leader=TWO, leader_epoch=LeaderEpoch(5), isr=(TWO,), is_recovering=True)
    assert _change(after, before) == frozenset()
    assert is_unclean(before, after)
    with pytest.raises(Violation):
        _change(replace(after, is_recovering=False), before)


def test_unclean_election_that_a_topic_allows() -> None:
    """Any live replica may be elected, if the election is recorded and no live replica is in sync or eligible. One
    that is live only since this change has no place any more."""
    before = replace(LED, leader=NO_BROKER, isr=(ONE,), elr=(TWO,))
    after = replace(before, leader=THREE, leader_epoch=LeaderEpoch(5), isr=(THREE,), elr=(), is_recovering=True)
    after = replace(after, partition_epoch=before.partition_epoch + 1)
    image = _image(after, live=(THREE,))
    with pytest.raises(Violation):
        check_change(image, WHERE, before, after)
    assert check_change(image, WHERE, before, after, runs_before={}) == frozenset()

    for number in (ONE, TWO):
        image = _image(after, live=(number, THREE))
        assert check_change(image, WHERE, before, after, runs_before={}) == frozenset()
        with pytest.raises(Violation, match=f"broker {number} is live"):
            check_change(image, WHERE, before, after, runs_before={number: LiveBroker("run", 10)})
    unrecorded = replace(after, is_recovering=False)
    with pytest.raises(Violation):
        check_change(_image(unrecorded, live=(THREE,)), WHERE, before, unrecorded, runs_before={})


def test_new_run_with_a_place() -> None:
    """A broker that starts again has no place among the in-sync replicas."""
    with pytest.raises(Violation):
        check_new_runs(_image(live=(ONE,)), _image(), lambda where: True)
    check_new_runs(_image(live=(ONE,)), _image(), lambda where: False)
    check_new_runs(_image(live=(ONE, TWO)), _image(live=(ONE, TWO, THREE)), lambda where: True)


def test_changed_partitions() -> None:
    """Only replicated partitions that a commit has written are looked at."""
    before, after = _image(), _image(replace(LED, isr=(ONE,), elr=(TWO,)))
    assert list(changed_partitions(before, after)) == [(WHERE, LED, after.topics["topic"].partitions[0])]
    assert list(changed_partitions(before, before)) == []
