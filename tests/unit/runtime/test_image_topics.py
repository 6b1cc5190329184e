"""Tests the metadata image as coordinators see it."""

from __future__ import annotations

from dataclasses import replace

from klamm.core.coordinator.cluster_topics import NO_TOPICS
from klamm.core.coordinator.topic_hash import topic_hash
from klamm.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId
from klamm.runtime.image_topics import ImageTopics


def topic(name: str, partitions: int = 1) -> TopicImage:
    broker = BrokerId(0)
    return TopicImage(
        name,
        TopicId(name.encode().ljust(16)),
        tuple(
            PartitionImage(PartitionIndex(index), broker, LeaderEpoch(0), (broker,), (broker,))
            for index in range(partitions)
        ),
    )


def image(*topics: TopicImage, rack: str | None = None) -> MetadataImage:
    brokers = {BrokerId(each): BrokerImage(BrokerId(each), "localhost", 9092 + each, rack, 1) for each in (0, 1)}
    return MetadataImage(
        topics={each.name: each for each in topics},
        topics_by_id={each.topic_id: each for each in topics},
        brokers=brokers,
        registrations=brokers,
    )


STAYS, GOES, GROWS = topic("stays"), topic("goes"), topic("grows")


def test_topics_that_came_went_or_changed_are_named() -> None:
    """`changes_since` names the topics that were added, deleted or changed, and no others."""
    before = ImageTopics(image(STAYS, GOES, GROWS))
    now = ImageTopics(image(STAYS, topic("grows", 2), topic("new")), before)
    changes = now.changes_since(before)
    assert (changes.names, changes.has_new) == ({"goes", "grows", "new"}, True)
    assert not ImageTopics(image(STAYS), before).changes_since(before).has_new


def test_any_earlier_picture_may_be_compared_with() -> None:
    """`changes_since` accepts any earlier image, because a caller may have missed the images in between."""
    first = ImageTopics(image(STAYS, GOES))
    second = ImageTopics(image(STAYS), first)
    third = ImageTopics(image(STAYS, GROWS), second)
    assert third.changes_since(second).names == {"grows"}
    assert third.changes_since(first).names == {"goes", "grows"}
    assert third.changes_since(NO_TOPICS).names == {"stays", "grows"}


def test_other_racks_may_change_every_topic() -> None:
    """A change of a broker's rack changes its topics, because assignments may depend on the racks of replicas."""
    before = ImageTopics(image(STAYS))
    now = ImageTopics(image(STAYS, rack="b"), before)
    assert now.changes_since(before).names == {"stays"}
    assert now.by_name("stays") != before.by_name("stays")


def test_broker_that_is_not_running_keeps_its_rack() -> None:
    """A broker that stops or starts changes no topic: its replicas stay in its rack as long as it is registered."""
    with_broker = image(STAYS, rack="a")
    before = ImageTopics(with_broker)
    now = ImageTopics(replace(with_broker, brokers={}), before)
    assert now.changes_since(before).names == set()
    assert now.by_name("stays") == before.by_name("stays")
    assert ImageTopics(replace(with_broker, brokers={})).by_name("stays") == before.by_name("stays")


def test_rack_of_two_replicas_is_in_the_hash_twice() -> None:
    """The hash has the rack of each replica, as in Kafka, also if another replica is in the same rack."""
    both = (BrokerId(0), BrokerId(1))
    partition = PartitionImage(PartitionIndex(0), both[0], LeaderEpoch(0), both, both)
    facts = ImageTopics(image(replace(STAYS, partitions=(partition,)), rack="a")).by_name("stays")
    assert facts is not None
    assert facts.racks == (frozenset({"a"}),)
    assert facts.hash == topic_hash("stays", STAYS.topic_id, 1, (["a", "a"],))


def test_facts_of_what_did_not_change_are_the_same_objects() -> None:
    """An unchanged topic has the same facts object in the new image, and the older image still gives its own facts."""
    before = ImageTopics(image(STAYS, GROWS))
    stays, grows = before.by_name("stays"), before.by_name("grows")
    now = ImageTopics(image(STAYS, topic("grows", 2)), before)
    assert now.by_name("stays") is stays
    grown = now.by_name("grows")
    assert grown is not None
    assert grown.partition_count == 2
    assert before.by_name("grows") == grows


def test_facts_of_topics_that_are_gone_are_not_kept_for_ever() -> None:
    """The number of kept facts stays limited, however many topics are created and deleted."""
    topics = ImageTopics(image())
    for number in range(3_000):
        topics = ImageTopics(image(topic(f"topic-{number}")), topics)
        assert topics.by_name(f"topic-{number}") is not None
    assert len(topics._facts) < 2_000
