"""Tests the steps from a settled outcome to markers in all partitions, with failures in between."""

from __future__ import annotations

import pytest
from tests.unit.runtime.fake_ports import Pledge
from tests.unit.runtime.transaction_world import E0, E1, ID, P0, TransactionWorld

from klamm.core.txn.transaction_state import TransactionState
from klamm.protocol.errors import ErrorCode
from klamm.protocol.schema.describe_transactions_request import DescribeTransactionsRequest
from klamm.protocol.types import LeaderEpoch

RETRIED = [
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]


def ending(world: TransactionWorld, *, commit: bool = True) -> tuple[int, int]:
    """Settles the outcome of a transaction on two partitions; returns the next producer id and epoch."""
    producer = world.inited()
    world.add_code(producer, (E0, E1), version=5)
    return world.ended(producer, commit=commit)


def test_description_tells_what_has_no_marker_yet() -> None:
    """DescribeTransactions lists exactly the partitions that still need a marker, as the coordinator knows them."""
    world = TransactionWorld()
    world.marker_logs.refusals[E1] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    ending(world)
    world.settle()
    request = DescribeTransactionsRequest(transactional_ids=[ID])
    (described,) = world.now(world.coordinator.describe_transactions(request, world.client(0))).transaction_states
    assert described.transaction_state == "PrepareCommit"
    assert [(topic.topic, topic.partitions) for topic in described.topics] == [(E1.topic, [E1.partition])]


@pytest.mark.parametrize("code", RETRIED)
def test_partition_that_fails_is_asked_again(code: ErrorCode) -> None:
    """Only the partition that failed gets the marker again, and the transaction ends when both partitions have it."""
    world = TransactionWorld()
    world.marker_logs.refusals[E1] = code
    ending(world)
    world.settle()
    assert world.state() is TransactionState.PREPARE_COMMIT
    assert world.transaction().partitions == {E0, E1}
    world.timers.advance(2000)
    world.marker_logs.refusals.clear()
    world.timers.advance(5000)
    assert world.state() is TransactionState.COMPLETE_COMMIT
    first, *later = world.marker_logs.markers
    assert first.partitions == (E0, E1)
    assert {marker.partitions for marker in later} == {(E1,)}
    assert [partition for partition, _ in world.marker_logs.written] == [E0, E1]


def test_waits_grow_up_to_a_bound() -> None:
    """Waits between retries grow to a limit: a partition that is gone for an hour gets hundreds of requests only."""
    world = TransactionWorld()
    world.marker_logs.refusals[E0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    ending(world)
    world.timers.advance(3_600_000)
    assert 700 < len(world.marker_logs.markers) < 800


def test_topic_that_is_gone_gets_no_marker() -> None:
    """A deleted topic needs no marker, because its deletion has removed the transaction's records."""
    world = TransactionWorld()
    world.marker_logs.refusals = dict.fromkeys((E0, E1), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    ending(world)
    world.settle()
    assert world.state() is TransactionState.PREPARE_COMMIT
    world.show_topics({"audit": 1})
    world.timers.advance(1000)
    assert world.state() is TransactionState.COMPLETE_COMMIT


@pytest.mark.parametrize("code", [ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT])
def test_partition_that_needs_no_marker_is_left_out(code: ErrorCode) -> None:
    """A partition with a later producer epoch, or one that cannot hold the transaction's records, needs no marker."""
    world = TransactionWorld()
    world.marker_logs.refusals[E0] = code
    ending(world)
    world.settle()
    assert world.state() is TransactionState.COMPLETE_COMMIT


def test_fenced_coordinator_leaves_it_to_the_other() -> None:
    """A fenced coordinator neither sends the marker again nor ends the transaction; its successor does."""
    world = TransactionWorld()
    world.marker_logs.refusals[E0] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    ending(world)
    world.timers.advance(60_000)
    assert world.state() is TransactionState.PREPARE_COMMIT
    assert len(world.marker_logs.markers) == 1


def test_writer_that_breaks_is_asked_again() -> None:
    """If the marker writer fails with an exception, markers are sent again, and the transaction ends."""
    world = TransactionWorld()
    world.marker_logs.fails = True
    ending(world)
    world.settle()
    world.marker_logs.fails = False
    world.timers.advance(1000)
    assert world.state() is TransactionState.COMPLETE_COMMIT


def test_marker_comes_after_the_outcome_is_committed() -> None:
    """Markers and the producer's answer wait until the outcome is committed; a crash could change it before."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_code(producer, version=5)
    world.log.holds_high_watermark = True
    answer = world.end(producer)
    world.settle()
    assert isinstance(answer, Pledge)
    assert not answer.done()
    assert not world.marker_logs.markers
    world.log.commit(P0)
    world.settle()
    assert world.now(answer).error_code == ErrorCode.NONE
    assert len(world.marker_logs.markers) == 1


def test_outcome_that_is_committed_late_is_followed_late() -> None:
    """An outcome that commits after the timeout takes effect, although the producer was asked to retry."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_code(producer, version=5)
    world.log.holds_high_watermark = True
    answer = world.end(producer)
    world.timers.advance(5000)
    assert world.now(answer).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.timers.advance(20_000)
    assert not world.marker_logs.markers
    world.log.holds_high_watermark = False
    world.log.commit(P0)
    world.timers.advance(10_000)
    assert world.state() is TransactionState.COMPLETE_COMMIT
    assert world.end_code(producer) is ErrorCode.NONE


def test_outcome_that_can_not_be_written_is_none() -> None:
    """If the outcome cannot be written, the transaction stays open and may end with the other outcome."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_code(producer, version=5)
    world.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.end_code(producer) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.timers.advance(1000)
    assert world.state() is TransactionState.ONGOING
    assert not world.marker_logs.markers
    world.log.append_error = None
    assert world.end_code(producer, commit=False) is ErrorCode.NONE
    world.settle()
    assert world.state() is TransactionState.COMPLETE_ABORT


def test_end_that_can_not_be_written_down_is_tried_again() -> None:
    """If the end of the transaction cannot be written, it is written again later, without sending the markers again."""
    world = TransactionWorld()
    world.marker_logs.held = Pledge()
    ending(world)
    world.settle()
    world.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    world.marker_logs.held.set_result(True)
    world.timers.advance(1000)
    assert world.state() is TransactionState.PREPARE_COMMIT
    world.log.append_error = None
    world.timers.advance(5000)
    assert world.state() is TransactionState.COMPLETE_COMMIT
    assert len(world.marker_logs.markers) == 1


def test_ends_of_which_only_some_can_be_written_down_leave_nothing_behind() -> None:
    """If the log takes the end of one transaction and refuses the ends of others, the next transaction of the first one
    gets its markers as usual."""
    world = TransactionWorld()
    producers = {each: world.inited(each) for each in (ID, "others")}
    world.log.holds_high_watermark = True
    for each, producer in producers.items():
        world.end(producer, each, commit=False)
    world.settle()
    world = world.restart()
    world.log.max_batch_bytes = 200  # a batch for each end
    world.log.appends_before_error = 1
    world.log.holds_high_watermark = False
    world.log.commit(P0)
    assert world.state() is TransactionState.COMPLETE_ABORT
    assert world.transaction("others").state is TransactionState.PREPARE_ABORT
    producer = (world.transaction().producer_id, world.transaction().producer_epoch)
    assert world.add_code(producer, (E0,), version=5) is ErrorCode.NONE
    world.ended(producer)
    world.settle()
    assert [marker.partitions for marker in world.marker_logs.markers] == [(E0,)]
    world.timers.advance(1000)
    assert world.transaction("others").state is TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize("commit", [True, False])
def test_restart_ends_what_was_ending(commit: bool) -> None:
    """A restart sends all markers of an ending transaction again, with the epoch of the new coordinator."""
    world = TransactionWorld()
    world.marker_logs.refusals[E1] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    ending(world, commit=commit)
    world.settle()
    world.marker_logs.refusals.clear()
    again = world.restart()
    again.settle()
    assert again.state() is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    marker = again.marker_logs.markers[-1]
    assert marker.partitions == (E0, E1)
    assert marker.is_commit is commit
    assert marker.coordinator_epoch == world.marker_logs.markers[0].coordinator_epoch + 1


def test_restart_leaves_open_transactions_open() -> None:
    """A restart sends no markers for an open transaction, and its producer can continue."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_code(producer, version=5)
    again = world.restart()
    again.settle()
    assert not again.marker_logs.markers
    assert again.end_code(producer) is ErrorCode.NONE


def test_outcome_for_a_coordinator_that_is_gone_is_dropped() -> None:
    """A stopped coordinator drops the result of its markers, because its successor sends its own markers."""
    world = TransactionWorld()
    held = world.marker_logs.held = Pledge()
    ending(world)
    world.settle()
    world.marker_logs.held = None
    again = world.restart()
    again.settle()
    appends = again.log.appends
    held.set_result(True)
    again.settle()
    assert again.log.appends == appends
    assert again.state() is TransactionState.COMPLETE_COMMIT


def test_outcome_of_an_earlier_leader_epoch_is_dropped() -> None:
    """After a resignation, and under a new leader epoch, the outcome of earlier markers is dropped: the coordinator of
    the new epoch sends its own markers, with its own coordinator epoch, and ends the transaction once."""
    world = TransactionWorld()
    held = world.marker_logs.held = Pledge()
    ending(world)
    world.settle()
    later = world.marker_logs.held = Pledge()
    world.coordinator.on_leadership(P0, LeaderEpoch(4))
    world.settle()
    appends = world.log.appends
    held.set_result(True)
    world.settle()
    assert world.log.appends == appends
    assert world.state() is TransactionState.PREPARE_COMMIT
    later.set_result(True)
    world.settle()
    assert world.state() is TransactionState.COMPLETE_COMMIT
    assert [marker.coordinator_epoch for marker in world.marker_logs.markers] == [0, 4]
    world.coordinator.on_resignation(P0)
    assert world.init_code() is ErrorCode.NOT_COORDINATOR


def test_many_endings_at_once_all_come_to_an_end() -> None:
    """Many transactions that end at once, with and without partitions, all complete after a restart in between."""
    world = TransactionWorld()
    world.marker_logs.fails = True
    ids = [f"{ID}-{index}" for index in range(250)]
    for index, transactional_id in enumerate(ids):
        producer = world.inited(transactional_id)
        if index % 3:
            world.add_code(producer, (E0,), transactional_id, version=5)
        world.end_code(producer, transactional_id, commit=False)
    world.marker_logs.fails = False
    again = world.restart()
    again.settle()
    assert {again.transaction(each).state for each in ids} == {TransactionState.COMPLETE_ABORT}
