"""Tests of the store of a shard: the groups of all kinds, and the conversion of a group id between kinds."""

from __future__ import annotations

import pytest

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.classic.classic_store import ClassicStore
from klamm.core.group.classic.group_metadata import NO_METADATA, group_metadata_record, group_tombstone
from klamm.core.group.consumer.consumer_group_records import (
    epoch_record,
    epoch_tombstone,
    member_record,
    member_tombstone,
)
from klamm.core.group.consumer.consumer_store import ConsumerStore
from klamm.core.group.consumer.member import ConsumerGroupMember
from klamm.core.group.events import GroupType
from klamm.core.group.group_kinds import empty_store
from klamm.core.group.group_store import EndedGroup, GroupStore
from klamm.protocol.schema.share_group_metadata_key import ShareGroupMetadataKey
from klamm.protocol.types import Generation, Offset, ProducerId

GROUP = "orders"
CLASSIC = group_metadata_record(GROUP, NO_METADATA._replace(generation=Generation(1)))
MEMBER = member_record(GROUP, ConsumerGroupMember("a", subscribed_topic_names=frozenset({"events"})))


def replayed(*records: CoordinatorRecord, start: int = 0) -> GroupStore:
    """Returns a store into which these records were replayed in order."""
    store = empty_store()
    for offset, record in enumerate(records, start):
        store.replay(Offset(offset), ProducerId(-1), record)
    return store


def test_a_record_of_another_kind_takes_the_id() -> None:
    """A record of another kind takes over the group id, because a compacted log may lack the tombstones in between."""
    store = replayed(CLASSIC, MEMBER)
    assert store.of(ClassicStore).groups == {}
    assert list(store.of(ConsumerStore).groups) == [GROUP]

    store = replayed(MEMBER, CLASSIC)
    assert list(store.of(ClassicStore).groups) == [GROUP]
    assert store.of(ConsumerStore).groups == {}
    assert not store.of(ConsumerStore).index.groups_of("events")


def test_a_tombstone_takes_no_id() -> None:
    """A tombstone of one kind does not affect a group that now belongs to another kind."""
    assert replayed(CLASSIC, epoch_tombstone(GROUP), member_tombstone(GROUP, "a")) == replayed(CLASSIC)
    assert replayed(MEMBER, group_tombstone(GROUP)) == replayed(MEMBER)


def test_the_tombstone_of_a_group_is_told() -> None:
    """The replay returns kind and id of a group for its tombstone, so that its in-memory state can be dropped."""
    store = empty_store()
    told = [
        store.replay(Offset(offset), ProducerId(-1), record)
        for offset, record in enumerate(
            (MEMBER, epoch_record(GROUP, 2, 0), member_tombstone(GROUP, "a"), epoch_tombstone(GROUP), CLASSIC)
        )
    ]
    assert told == [None, None, None, EndedGroup(GroupType.CONSUMER, GROUP), None]
    assert store.replay(Offset(5), ProducerId(-1), group_tombstone(GROUP)) == EndedGroup(GroupType.CLASSIC, GROUP)


def test_a_conversion_is_known_until_the_next_record_of_the_group() -> None:
    """A group is converted if its tombstone directly precedes the new kind's record, until the group's next record."""
    assert replayed(MEMBER, epoch_tombstone(GROUP), CLASSIC).converted == {GROUP}
    assert replayed(MEMBER, epoch_tombstone(GROUP), CLASSIC, CLASSIC).converted == set()
    assert replayed(MEMBER, epoch_tombstone(GROUP), CLASSIC, group_tombstone(GROUP)).converted == set()
    other = group_metadata_record("other", NO_METADATA)
    assert replayed(MEMBER, epoch_tombstone(GROUP), other, CLASSIC).converted == set()
    assert replayed(CLASSIC, group_tombstone(GROUP), CLASSIC).converted == set()


def test_stores_with_the_same_groups_are_equal() -> None:
    """Two stores with equal groups of each kind are equal, whatever records led to them."""
    assert replayed(CLASSIC) == replayed(CLASSIC, CLASSIC, start=7)
    assert replayed(CLASSIC) != replayed()
    assert replayed(MEMBER) != replayed(CLASSIC)
    assert replayed(MEMBER) != replayed(MEMBER, epoch_record(GROUP, 2, 0))


def test_a_record_of_no_kind_is_refused() -> None:
    """The store refuses a record that belongs to no kind; the serde skips such records before."""
    with pytest.raises(TypeError, match="not a record of groups: ShareGroupMetadataKey"):
        replayed(CoordinatorRecord(ShareGroupMetadataKey(group_id=GROUP), None, 0))
