"""Tests of the records of consumer groups: serialization, replay and compaction (I17)."""

from __future__ import annotations

import pytest
from tests.unit.core.group.consumer.consumer_driver import EVENTS, GROUP, ConsumerDriver
from tests.unit.core.group.painted_topics import topic_id
from tests.unit.core.group.shard_driver import Written

from klamm.core.coordinator.shard_contract import CoordinatorRecord
from klamm.core.group.classic.group_metadata import NO_METADATA
from klamm.core.group.consumer.consumer_group_records import (
    current_assignment_record,
    epoch_record,
    member_record,
    with_assignment,
    with_metadata,
)
from klamm.core.group.consumer.consumer_store import ConsumerStore
from klamm.core.group.consumer.group_state import MemberState
from klamm.core.group.consumer.member import ClassicMetadata, ConsumerGroupMember
from klamm.core.group.group_kinds import empty_store
from klamm.protocol.message import Message
from klamm.protocol.schema.consumer_group_current_member_assignment_key import ConsumerGroupCurrentMemberAssignmentKey
from klamm.protocol.schema.consumer_group_current_member_assignment_value import (
    ConsumerGroupCurrentMemberAssignmentValue,
    TopicPartitions,
)
from klamm.protocol.schema.consumer_group_member_metadata_key import ConsumerGroupMemberMetadataKey
from klamm.protocol.schema.consumer_group_member_metadata_value import ConsumerGroupMemberMetadataValue
from klamm.protocol.schema.consumer_group_metadata_key import ConsumerGroupMetadataKey
from klamm.protocol.schema.consumer_group_partition_metadata_key import ConsumerGroupPartitionMetadataKey
from klamm.protocol.schema.consumer_group_partition_metadata_value import ConsumerGroupPartitionMetadataValue
from klamm.protocol.schema.consumer_group_regular_expression_key import ConsumerGroupRegularExpressionKey
from klamm.protocol.schema.consumer_group_target_assignment_member_key import ConsumerGroupTargetAssignmentMemberKey
from klamm.protocol.schema.consumer_group_target_assignment_metadata_key import ConsumerGroupTargetAssignmentMetadataKey
from klamm.protocol.schema.share_group_metadata_key import ShareGroupMetadataKey
from klamm.protocol.types import Offset, PartitionIndex, ProducerId
from klamm.runtime.record_serde import GroupRecordSerde

SERDE = GroupRecordSerde()
NO_PRODUCER = ProducerId(-1)


def through_bytes(record: CoordinatorRecord) -> CoordinatorRecord:
    key, value = SERDE.serialize(record)
    decoded = SERDE.deserialize(key, value)
    assert decoded is not None
    return decoded


def busy_group() -> ConsumerDriver:
    """Creates a group whose log has a record of every type."""
    driver = ConsumerDriver()
    driver.enter("a", instance="pod", rack_id="r", assignor="range")
    driver.enter("b", names=["audit"], regex="ev.*")
    driver.run_tasks()
    driver.settle()
    driver.enter("c")
    driver.beat("a", driver.member("a").member_epoch, instance_id="pod")
    driver.go("c")
    return driver


def test_log_that_went_through_bytes_tells_the_same() -> None:
    """A replay of serialized records gives the same state as the original records when they were written (I17)."""
    driver = busy_group()
    store = empty_store()
    for offset, written in enumerate(driver.log):
        store.replay(Offset(offset), NO_PRODUCER, through_bytes(written.record))
    assert store == driver.shard.store


def test_compacted_log_tells_the_same() -> None:
    """A compacted log gives the same state, with or without the tombstones."""
    driver = busy_group()
    last = {SERDE.serialize(written.record)[0]: offset for offset, written in enumerate(driver.log)}
    kept = [driver.log[offset] for offset in sorted(last.values())]
    without_tombstones = [written for written in kept if written.record.value is not None]
    for log in (kept, without_tombstones):
        store = empty_store()
        for offset, written in enumerate(log):
            store.replay(Offset(offset), NO_PRODUCER, written.record)
        assert store == driver.shard.store


def test_members_survive_their_records() -> None:
    """A member with all fields set is equal after serialization and replay."""
    member = ConsumerGroupMember(
        "a",
        member_epoch=7,
        previous_member_epoch=6,
        state=MemberState.UNREVOKED_PARTITIONS,
        instance_id="pod",
        rack_id="r",
        rebalance_timeout_ms=5,
        client_id="app",
        client_host="/10.0.0.1",
        subscribed_topic_names=frozenset({"events", "audit"}),
        subscribed_topic_regex="e.*",
        server_assignor="range",
        assigned={topic_id(EVENTS): {PartitionIndex(2): 5, PartitionIndex(0): 7}},
        pending_revocation={topic_id("audit"): {PartitionIndex(1): 6}},
        classic=ClassicMetadata(6000, (("range", b"r"), ("sticky", b""))),
    )
    metadata = through_bytes(member_record(GROUP, member)).value
    assignment = through_bytes(current_assignment_record(GROUP, member)).value
    assert isinstance(metadata, ConsumerGroupMemberMetadataValue)
    assert isinstance(assignment, ConsumerGroupCurrentMemberAssignmentValue)
    assert with_assignment(with_metadata(ConsumerGroupMember("a"), metadata), assignment) == member


def test_member_that_returns_does_not_take_partitions_back() -> None:
    """A returned member does not take partitions back when a partly compacted log is loaded (I15, I17). The log has the
    member's old assignment without its tombstones, then the new owner's assignment, then the returned member.
    """
    partition = PartitionIndex(0)
    before = ConsumerGroupMember("a", 1, assigned={topic_id(EVENTS): {partition: 1}})
    other = ConsumerGroupMember("b", 2, assigned={topic_id(EVENTS): {partition: 2}})
    after = ConsumerGroupMember("a", 3, client_id="again")
    store = empty_store()
    for offset, record in enumerate(
        (
            epoch_record(GROUP, 1, 0),
            member_record(GROUP, before),
            current_assignment_record(GROUP, before),
            member_record(GROUP, other),
            current_assignment_record(GROUP, other),
            member_record(GROUP, after),
            current_assignment_record(GROUP, after),
        )
    ):
        store.replay(Offset(offset), NO_PRODUCER, through_bytes(record))
    assert store.of(ConsumerStore).groups[GROUP].owner(topic_id(EVENTS), partition) == "b"


def test_assignment_without_epochs_has_that_of_the_member() -> None:
    """Assignments from before KIP-1251 have no epochs: the member epoch is used, or 0 if the static member has left."""
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=4, assigned_partitions=[TopicPartitions(topic_id=topic_id(EVENTS), partitions=[0, 1])]
    )
    assert with_assignment(ConsumerGroupMember("a"), value).assigned == {topic_id(EVENTS): {0: 4, 1: 4}}
    value.member_epoch = -2
    assert with_assignment(ConsumerGroupMember("a"), value).assigned == {topic_id(EVENTS): {0: 0, 1: 0}}


@pytest.mark.parametrize(
    "key",
    [
        ConsumerGroupMetadataKey(group_id="ghost"),
        ConsumerGroupPartitionMetadataKey(group_id="ghost"),
        ConsumerGroupMemberMetadataKey(group_id="ghost", member_id="m"),
        ConsumerGroupTargetAssignmentMetadataKey(group_id="ghost"),
        ConsumerGroupTargetAssignmentMemberKey(group_id="ghost", member_id="m"),
        ConsumerGroupCurrentMemberAssignmentKey(group_id="ghost", member_id="m"),
        ConsumerGroupRegularExpressionKey(group_id="ghost", regular_expression="e.*"),
    ],
)
def test_tombstone_of_what_is_not_there_does_nothing(key: Message) -> None:
    """A tombstone for an unknown group, or for an unknown part of a group, has no effect."""
    store = empty_store()
    store.replay(Offset(0), NO_PRODUCER, CoordinatorRecord(key, None, 0))
    assert store == empty_store()
    if not isinstance(key, ConsumerGroupMetadataKey | ConsumerGroupTargetAssignmentMetadataKey):
        driver = ConsumerDriver()
        driver.enter("a")
        before = driver.reload().shard.store
        key.group_id = GROUP  # type: ignore[attr-defined]
        driver.shard.store.replay(Offset(99), NO_PRODUCER, CoordinatorRecord(key, None, 0))
        assert driver.shard.store == before


def test_offsets_that_come_before_their_group_do_not_hide_it() -> None:
    """A group record replaces the simple group that earlier offsets created, since compaction may put offsets first."""
    driver = ConsumerDriver()
    driver.commit(3)
    assert driver.shard.classic_groups.store.groups == {GROUP: NO_METADATA}
    driver._write(Written(NO_PRODUCER, epoch_record(GROUP, 5, 0)))
    assert driver.shard.classic_groups.store.groups == {}
    assert driver.consumer_group().epoch == 5
    assert driver.fetch((EVENTS, 0)) == {(EVENTS, 0): 3}


def test_metadata_of_old_brokers_is_taken_away() -> None:
    """The next change of the group epoch removes the partition metadata record that brokers before 4.1 wrote."""
    driver = ConsumerDriver()
    driver.enter("a")
    key = ConsumerGroupPartitionMetadataKey(group_id=GROUP)
    driver._write(Written(NO_PRODUCER, CoordinatorRecord(key, ConsumerGroupPartitionMetadataValue(), 0)))
    assert driver.consumer_group().has_legacy_metadata
    driver.enter("b")
    assert not driver.consumer_group().has_legacy_metadata
    assert driver.reload().shard.store == driver.shard.store


def test_unknown_types_are_still_skipped() -> None:
    """Records of share groups, which are not supported yet, are skipped on load and stay in the log."""
    key, _ = SERDE.serialize(CoordinatorRecord(ShareGroupMetadataKey(group_id="s"), None, 0))
    assert SERDE.deserialize(key, None) is None
