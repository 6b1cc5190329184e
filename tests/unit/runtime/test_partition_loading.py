"""Tests loading: a partition's log is replayed in steps that leave the event loop free."""

from __future__ import annotations

import logging
from unittest.mock import patch

import pytest
from tests.unit.runtime.coordinator_world import GROUP, P0, TOPIC_ID, CoordinatorWorld
from tests.unit.runtime.fake_ports import MemoryLog

from klamm.core.group.classic.group_state import GroupState
from klamm.metadata.image import MetadataImage, TopicImage
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.coordinator_records import encode_record_key, encode_record_value
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.message import Message
from klamm.protocol.records import encode_batch
from klamm.protocol.schema.consumer_group_metadata_key import ConsumerGroupMetadataKey
from klamm.protocol.schema.consumer_group_metadata_value import ConsumerGroupMetadataValue
from klamm.protocol.schema.group_metadata_key import GroupMetadataKey
from klamm.protocol.schema.offset_commit_key import OffsetCommitKey
from klamm.protocol.schema.offset_commit_value import OffsetCommitValue
from klamm.protocol.types import LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId, TopicId
from klamm.runtime import load_queue
from klamm.runtime.led_partition import PartitionState


def offset_batch(offset: int, *, producer: int = -1) -> bytes:
    """Returns a batch with one committed offset, as a coordinator writes it."""
    key = encode_record_key(OffsetCommitKey(group=GROUP, topic="events", partition=0))
    value = encode_record_value(OffsetCommitValue(offset=offset, commit_timestamp=1), 4)
    return encode_batch(
        [(1, key, value, ())],
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        is_transactional=producer >= 0,
    )


def marker(producer: int, *, commit: bool) -> bytes:
    """Returns the marker that ends a transaction."""
    return encode_end_transaction_marker(
        EndTransactionMarker(commit, 0),
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=Millis(1),
    )


def test_state_is_the_same_after_a_restart() -> None:
    """I17: groups, offsets and the positions of their records are the same after a restart."""
    world = CoordinatorWorld()
    ids = world.stable_group()
    for offset in range(20):
        world.commit(offset, group_id=f"group-{offset}")
    before = world.shard().store
    again = world.restart()
    assert again.shard().store == before
    assert again.heartbeat(ids[1], 1) is ErrorCode.NONE
    assert again.fetched(group_id="group-7") == 7


def test_groups_are_loading_until_the_log_is_read() -> None:
    """While the log is loading, requests get COORDINATOR_LOAD_IN_PROGRESS, but a heartbeat is answered with success."""
    log = MemoryLog(read_batches=1)
    world = CoordinatorWorld(log=log)
    ids = world.stable_group()
    for offset in range(100):
        world.commit(offset, group_id="simple")
    with patch.object(load_queue, "_STEP_MS", 0.0):
        again = CoordinatorWorld(log=log, is_loaded=False)
        again.timers.stall(0)
        assert again.commit_code(1, group_id="simple") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert again.now(again.join()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert again.now(again.fetch()).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert again.heartbeat(ids[0], 1) is ErrorCode.NONE
    again.timers.advance(1)
    assert again.fetched(group_id="simple") == 99


def test_new_partition_answers_at_once() -> None:
    """A new partition answers at once, because it has no records to load."""
    assert CoordinatorWorld(is_loaded=False).commit_code(1) is ErrorCode.NONE


def test_leadership_lost_while_loading() -> None:
    """A partition whose leadership is lost while it loads answers NOT_COORDINATOR."""
    log = MemoryLog(read_batches=1)
    for offset in range(200):
        log.append(P0, offset_batch(offset))
    with patch.object(load_queue, "_STEP_MS", 0.0):
        world = CoordinatorWorld(log=log, is_loaded=False)
        world.coordinator.on_resignation(P0)
    world.timers.advance(10)
    assert world.commit_code(1) is ErrorCode.NOT_COORDINATOR


def test_records_of_other_group_types_are_skipped() -> None:
    """Records of other group types, as Kafka writes them, create no classic group and do not stop the load."""
    log = MemoryLog()
    log.append(P0, offset_batch(5))
    key: Message = ConsumerGroupMetadataKey(group_id="modern")
    value = ConsumerGroupMetadataValue(epoch=3)
    log.append(P0, encode_batch([(1, encode_record_key(key), encode_record_value(value, 0), ())]))
    log.append(P0, encode_batch([(1, b"\x00\x63unheard of", b"\x00\x00?", ())]))
    world = CoordinatorWorld(log=log)
    assert world.fetched() == 5
    assert list(world.shard().classic_groups.store.groups) == [GROUP]
    assert world.commit_code(6) is ErrorCode.NONE


@pytest.mark.parametrize(("commit", "expected"), [(True, 9), (False, 5)])
def test_offsets_of_transactions_wait_for_their_marker(commit: bool, expected: int) -> None:
    """I12: offsets of a transaction are ignored until its control batch is in the log, which commits or aborts them."""
    log = MemoryLog()
    log.append(P0, offset_batch(5))
    log.append(P0, offset_batch(9, producer=1000))
    assert CoordinatorWorld(log=log).fetched() == 5
    log.append(P0, marker(1000, commit=commit))
    assert CoordinatorWorld(log=log).fetched() == expected


def test_log_with_gaps_is_read_to_its_end() -> None:
    """A log from which the cleaner has removed records, even the last one, is loaded to its end."""
    log = MemoryLog()
    for offset in range(6):
        log.append(P0, offset_batch(offset))
    partition = log.partition(P0)
    partition.batches = [partition.batches[1], partition.batches[3]]
    partition.log_start_offset = Offset(1)
    world = CoordinatorWorld(log=log)
    assert world.fetched() == 3
    assert world.commit_code(10) is ErrorCode.NONE


@pytest.mark.parametrize(
    ("key", "value", "names_group"),
    [
        (b"\x00", b"", False),
        (None, b"no key", False),
        (encode_record_key(OffsetCommitKey(group=GROUP, topic="events"))[:-1], b"\x00\x04", True),
        (encode_record_key(OffsetCommitKey(group=GROUP, topic="events")), b"\x00\x04\x00", True),
        (encode_record_key(OffsetCommitKey(group=GROUP, topic="events")), b"\x00\x63" + bytes(32), True),
        (encode_record_key(GroupMetadataKey(group=GROUP)), b"\x00", True),
    ],
)
def test_a_record_that_can_not_be_read_is_skipped(
    key: bytes | None, value: bytes, names_group: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A record that cannot be read is skipped, and the groups of the partition are served. One log line names topic,
    partition, offset and, if the key contains it, the group; `skipped_records` counts the record."""
    log = MemoryLog()
    log.append(P0, offset_batch(5))
    log.append(P0, encode_batch([(1, key, value, ())]))
    log.append(P0, offset_batch(7))
    world = CoordinatorWorld(log=log)
    assert world.fetched() == 7
    assert world.commit_code(8) is ErrorCode.NONE
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert "the record at offset 1 of __consumer_offsets-0 can't be read and is skipped" in line
    assert (f"group {GROUP}" in line) is names_group
    assert world.coordinator.skipped_records == 1


def test_very_many_records_that_can_not_be_read_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Only the first unreadable records have log lines of their own, and the last line gives the total. The count ends
    with the leadership of the partition."""
    log = MemoryLog()
    log.append(P0, encode_batch([(1, b"\x00", b"", ())] * 1_000))
    world = CoordinatorWorld(log=log)
    assert world.commit_code(1) is ErrorCode.NONE
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(lines) == 21
    assert "1000 records of __consumer_offsets-0" in lines[-1]
    assert world.coordinator.skipped_records == 1_000
    world.coordinator.on_resignation(P0)
    assert world.coordinator.skipped_records == 0


def test_records_of_unknown_types_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Records of unknown types are logged once and are no error; as in Kafka, a newer version may have written them."""
    log = MemoryLog()
    log.append(P0, encode_batch([(1, b"\x00\x63unheard of", b"\x00\x00?", ())] * 3))
    world = CoordinatorWorld(log=log)
    assert world.commit_code(6) is ErrorCode.NONE
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert "__consumer_offsets-0 has records of types that this coordinator doesn't know (99)" in line
    assert world.coordinator.skipped_records == 0


def test_a_log_that_can_not_be_read_has_no_coordinator(caplog: pytest.LogCaptureFixture) -> None:
    """A partition whose log cannot be read answers NOT_COORDINATOR instead of a wrong state. A later leadership loads
    the log again."""
    log = MemoryLog()
    log.append(P0, offset_batch(5))
    with patch.object(log, "read", side_effect=KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "a bad disk")):
        world = CoordinatorWorld(log=log)
        assert world.commit_code(1) is ErrorCode.NOT_COORDINATOR
    assert "cannot be read" in caplog.text
    world.coordinator.on_leadership(P0, LeaderEpoch(1))
    world.timers.advance(1)
    assert world.fetched() == 5


def test_large_batch_is_read_in_steps() -> None:
    """A batch of a thousand records is loaded in steps, so that it does not block the event loop."""
    log = MemoryLog()
    records = []
    for index in range(1000):
        key = encode_record_key(OffsetCommitKey(group=f"g{index}", topic="events", partition=0))
        records.append((1, key, encode_record_value(OffsetCommitValue(offset=index), 4), ()))
    log.append(P0, encode_batch(records))
    with patch.object(load_queue, "_STEP_MS", 0.0):
        world = CoordinatorWorld(log=log, is_loaded=False)
        assert world.commit_code(1) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.timers.advance(1)
    assert len(world.shard().classic_groups.store.groups) == 1000


def test_groups_with_members_are_taken_over_in_steps() -> None:
    """The sessions of loaded members begin in steps. Requests are refused until all sessions have begun, and a metadata
    change in the meantime is applied afterwards."""
    world = CoordinatorWorld()
    groups = [f"group-{index}" for index in range(120)]
    for group_id in groups:
        member_id = world.now(world.join(group_id=group_id)).member_id
        joining = world.join(member_id, group_id=group_id)
        world.timers.advance(1)
        world.sync(member_id, world.now(joining).generation_id, [member_id], group_id=group_id)
    world.commit(1, group_id="simple")
    topic = TopicImage("events", TopicId(TOPIC_ID), ())
    with patch.object(load_queue, "_STEP_MS", 0.0):
        again = CoordinatorWorld(log=world.log, is_loaded=False)
    led = again.coordinator._runtime._led[P0]
    steps = again.coordinator._runtime._loads._queue[0][1]
    while led.state is PartitionState.LOADING:
        next(steps)
    assert led.state is PartitionState.STARTING
    assert len(led.alarms) == 50
    assert again.commit_code(2, group_id="simple") is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    again.coordinator.on_metadata_update(
        MetadataImage(topics_by_id={topic.topic_id: topic}), MetadataImage(topics_by_id={})
    )
    again.timers.advance(1)
    assert len(led.alarms) == len(groups) + 1
    assert again.fetched(group_id="simple") == -1
    again.timers.advance(60_000)
    assert {again.shard().classic_groups.summary(group_id)[0] for group_id in groups} == {GroupState.EMPTY}


def test_leadership_lost_while_groups_are_taken_over() -> None:
    """When leadership is lost while groups are taken over, sessions that have begun already do not expire."""
    world = CoordinatorWorld()
    world.stable_group()
    with patch.object(load_queue, "_STEP_MS", 0.0):
        again = CoordinatorWorld(log=world.log, is_loaded=False)
    led = again.coordinator._runtime._led[P0]
    steps = again.coordinator._runtime._loads._queue[0][1]
    while led.state is PartitionState.LOADING:
        next(steps)
    again.coordinator.on_resignation(P0)
    again.timers.advance(60_000)
    assert again.heartbeat("client-1", 1) is ErrorCode.NOT_COORDINATOR
    assert len(led.alarms) == 0
