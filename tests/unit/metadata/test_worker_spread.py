"""Tests how partitions are spread over another number of workers."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.errors import KlammError
from klamm.metadata.entries import apply, put_broker, put_partition, put_topic
from klamm.metadata.image import EMPTY_IMAGE, NO_BROKER, MetadataImage, PartitionImage, TopicImage
from klamm.metadata.metadata_store import Change, Versioned
from klamm.metadata.worker_spread import plan_spread
from klamm.protocol.internal_topic_names import HISTORY_TOPIC, OFFSETS_TOPIC
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicPartition


def _image(leaders: dict[str, list[int]], registered: int) -> MetadataImage:
    changes = [put_broker(BrokerId(number), {"PLAINTEXT": ("localhost", 1)}, None) for number in _numbers(registered)]
    for number, (name, of_topic) in enumerate(leaders.items(), 1):
        topic_id = TopicId(number.to_bytes(16, "big"))
        partitions = tuple(
            PartitionImage(PartitionIndex(index), BrokerId(leader), LeaderEpoch(3), (BrokerId(leader),), ())
            for index, leader in enumerate(of_topic)
        )
        changes.append(put_topic(TopicImage(name, topic_id, partitions)))
        changes += [put_partition(topic_id, partition) for partition in partitions]
    return _applied(EMPTY_IMAGE, changes)


def _applied(image: MetadataImage, changes: list[Change]) -> MetadataImage:
    revision = image.revision + 1
    entries = {key: None if value is None else Versioned(value, 1, revision) for key, value, _ in changes}
    return apply(image, revision, entries)


def _numbers(workers: int) -> list[BrokerId]:
    return [BrokerId(number) for number in range(1, workers + 1)]


def _spread(image: MetadataImage, workers: int) -> MetadataImage:
    plan = plan_spread(image, _numbers(workers))
    after = _applied(image, list(plan.changes))
    assert plan.result == {
        TopicPartition(topic.name, partition.index): partition.leader
        for topic in after.topics.values()
        for partition in topic.partitions
    }
    return after


def _leaders(image: MetadataImage, topic: str) -> list[int]:
    return [partition.leader for partition in image.topics[topic].partitions]


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=9), max_size=6),
    st.integers(1, 6),
)
def test_each_topic_and_all_together_are_spread_evenly(topics: list[list[int]], workers: int) -> None:
    """Of two workers one has at most one partition more, of each topic and in total. A second plan changes nothing."""
    image = _spread(_image({f"t{number}": leaders for number, leaders in enumerate(topics)}, 0), workers)
    counts = [Counter(dict.fromkeys(_numbers(workers), 0)) for _ in range(len(topics) + 1)]
    for number in range(len(topics)):
        counts[number].update(BrokerId(leader) for leader in _leaders(image, f"t{number}"))
        counts[-1].update(counts[number])
    for each in counts:
        assert set(each) == set(_numbers(workers))
        assert max(each.values()) - min(each.values()) <= 1
    assert not plan_spread(image, _numbers(workers)).changes


def test_partitions_stay_where_there_is_room() -> None:
    """Only the partitions without room move. They get a higher leader epoch; all others keep theirs."""
    image = _spread(_image({"t": [1, 1, 2, 2, 3, 3]}, 3), 2)
    assert _leaders(image, "t") == [1, 1, 2, 2, 1, 2]
    assert [partition.leader_epoch for partition in image.topics["t"].partitions] == [3, 3, 3, 3, 4, 4]
    assert image.topics["t"].partitions[4].replicas == image.topics["t"].partitions[4].isr == (1,)


def test_the_same_workers_keep_every_partition() -> None:
    """With as many workers as before, assignments that a user has made stay, however uneven they are."""
    assert not plan_spread(_image({"t": [2, 2, 2]}, 2), _numbers(2)).changes


def test_workers_that_never_ran_keep_nothing() -> None:
    """An interrupted start with three workers left partitions to workers that are not registered."""
    assert _leaders(_spread(_image({"t": [1, 2, 3]}, 1), 1), "t") == [1, 1, 1]


def test_registrations_of_workers_that_are_gone_are_removed() -> None:
    """Clients must not be told of workers that are not started any more."""
    assert set(_spread(_image({"t": [1, 2, 3]}, 3), 1).registrations) == {1}


def test_the_history_of_groups_stays_next_to_their_coordinator() -> None:
    """Partition i of the history has the home of partition i of the committed offsets."""
    image = _spread(_image({HISTORY_TOPIC: [1] * 5, OFFSETS_TOPIC: [1] * 5, "t": [1]}, 1), 3)
    assert _leaders(image, HISTORY_TOPIC) == _leaders(image, OFFSETS_TOPIC)
    assert set(_leaders(image, OFFSETS_TOPIC)) == {1, 2, 3}


def _replicated(leader: int, replicas: tuple[int, ...], *, registered: int) -> MetadataImage:
    """Returns an image with partitions `narrow-0` on worker 1 and `wide-0`, which has several replicas."""
    image = _image({"narrow": [1], "wide": [1]}, registered)
    brokers = tuple(map(BrokerId, replicas))
    wide = PartitionImage(PartitionIndex(0), BrokerId(leader), LeaderEpoch(3), brokers, brokers)
    return _applied(image, [put_partition(image.topics["wide"].topic_id, wide)])


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("leader", [1, 2, NO_BROKER])
def test_another_number_of_workers_is_refused_for_several_replicas(leader: int, workers: int) -> None:
    """A partition with several replicas stays with its workers, wherever its leader is: a smaller number would leave a
    replica on no worker. The message says how many workers there were, and how to change their number."""
    with pytest.raises(KlammError, match=r"--workers 2 as before.*reassign --replication-factor 1 wide`"):
        plan_spread(_replicated(leader, (2, 1), registered=2), _numbers(workers))


def test_many_topics_with_several_replicas_are_not_all_named() -> None:
    """The message names some of the topics, so that it stays readable."""
    image = _image({f"t{number}": [1] for number in range(9)}, 2)
    for topic in list(image.topics.values()):
        wide = PartitionImage(PartitionIndex(0), BrokerId(1), LeaderEpoch(3), (BrokerId(1), BrokerId(2)), ())
        image = _applied(image, [put_partition(topic.topic_id, wide)])
    with pytest.raises(KlammError, match=r"9 topic\(s\) have .* t0 t1 t2 t3 t4 \.\.\.`"):
        plan_spread(image, _numbers(1))


@pytest.mark.parametrize("registered", [1, 2])
def test_the_same_workers_keep_several_replicas(registered: int) -> None:
    """With as many workers as before nothing changes, also if one of them was unregistered just before the stop."""
    image = _replicated(1, (1, 2), registered=registered)
    assert not plan_spread(image, _numbers(2)).changes
    with pytest.raises(KlammError, match="--workers 2 as before"):
        plan_spread(image, _numbers(1))
