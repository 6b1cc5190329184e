"""Tests which leaderships of a broker may lack acknowledged records, as its log and its metrics tell."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from klamm.broker.replication.unclean_leaderships import UncleanLeaderships
from klamm.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionImage, TopicImage
from klamm.protocol.types import BrokerId, LeaderEpoch, PartitionIndex, TopicId

OWN, OTHER = BrokerId(1), BrokerId(2)


def image(*leaders: tuple[int, int, bool], name: str = "orders") -> MetadataImage:
    """Returns an image of a topic whose partitions have these leaders, leader epochs, and signs of a recovery."""
    partitions = tuple(
        PartitionImage(
            PartitionIndex(index), BrokerId(leader), LeaderEpoch(epoch), (OWN, OTHER), (OWN,), is_recovering=recovers
        )
        for index, (leader, epoch, recovers) in enumerate(leaders)
    )
    return MetadataImage(topics={name: TopicImage(name, TopicId(b"t" * 16), partitions)})


def counts(images: Sequence[MetadataImage]) -> list[int]:
    told = UncleanLeaderships(OWN)
    found = []
    for old, new in zip([EMPTY_IMAGE, *images], images, strict=False):
        told.on_metadata_update(old, new)
        found.append(told.count)
    return found


def test_each_unclean_leadership_counts_once(caplog: pytest.LogCaptureFixture) -> None:
    """A change of the same leadership counts no second time, another leader epoch does. One line names the partitions
    of a topic."""
    images = [
        image((OWN, 1, False), (OWN, 1, False)),
        image((OWN, 2, True), (OWN, 2, True)),
        image((OWN, 2, True), (OWN, 2, False)),
        image((OWN, 3, True), (OWN, 2, False)),
    ]
    with caplog.at_level(logging.WARNING):
        assert counts(images) == [0, 2, 2, 3]
    assert [record.getMessage().partition(", and")[0] for record in caplog.records] == [
        "orders: this broker leads the partitions [0, 1]",
        "orders: this broker leads the partitions [0]",
    ]


def test_leaders_on_other_brokers_do_not_count() -> None:
    """Each broker counts its own, so that the sum over all brokers is right."""
    assert counts([image((OTHER, 1, True))]) == [0]


def test_what_a_broker_leads_when_it_starts_counts() -> None:
    """The start itself may begin the leadership: the broker has the only replica, and its machine has lost power."""
    assert counts([image((OWN, 1, True))]) == [1]


def test_new_partitions_count_too() -> None:
    """A topic that grows has no earlier leaders in its new partitions."""
    assert counts([image((OWN, 1, False)), image((OWN, 1, False), (OWN, 0, True))]) == [0, 1]
