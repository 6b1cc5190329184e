"""Tests that a broker does not start without the data of the brokers that had partitions before."""

from __future__ import annotations

import pytest

from klamm.broker.services.cluster.other_brokers import refuse_other_brokers
from klamm.errors import KlammError
from klamm.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId


def _image(*leaders: int) -> MetadataImage:
    brokers = [BrokerId(leader) for leader in leaders]
    partitions = tuple(
        PartitionImage(PartitionIndex(index), broker, LeaderEpoch(0), (broker,), (broker,))
        for index, broker in enumerate(brokers)
    )
    return MetadataImage(
        topics={"t": TopicImage("t", TopicId(b"t" * 16), partitions)},
        registrations={broker: BrokerImage(broker, "localhost", 9092, None, 0) for broker in (*brokers, BrokerId(1))},
    )


def test_partitions_of_other_brokers_are_named() -> None:
    """The message says which broker has how many partitions."""
    with pytest.raises(KlammError, match="broker 2 has 2 partitions, broker 3 has 1 partitions, which this broker"):
        refuse_other_brokers(_image(1, 2, 2, 3), (1,))


def test_registrations_without_partitions_are_no_reason() -> None:
    """A broker that had nothing may be missing."""
    refuse_other_brokers(_image(1, 1), (1,))
    refuse_other_brokers(_image(7), (7,))
