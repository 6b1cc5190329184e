"""Tests the partitions of a transaction, which clients and brokers add, or brokers only verify."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.runtime.transaction_world import E0, E1, ID, TransactionWorld

from klamm.core.txn.coordinator_config import TransactionCoordinatorConfig
from klamm.core.txn.transaction_state import TransactionState
from klamm.protocol.errors import ErrorCode
from klamm.protocol.types import ProducerEpoch, ProducerId


def test_transaction_begins_with_its_first_partition() -> None:
    """A transaction begins with its first partition, and later partitions do not change its start time."""
    world = TransactionWorld()
    producer = world.inited()
    world.timers.advance(5)
    start = world.timers.wall_clock()
    assert world.add(producer, (E0,)) == {E0: ErrorCode.NONE}
    world.timers.advance(5)
    assert world.add(producer, (E1,)) == {E1: ErrorCode.NONE}
    transaction = world.restart().transaction()
    assert transaction.state is TransactionState.ONGOING
    assert transaction.partitions == {E0, E1}
    assert transaction.start_timestamp == start
    assert transaction.last_update_timestamp == start + 5


def test_partitions_that_are_there_cost_nothing() -> None:
    """Adding a partition again, by a retry or for another batch, writes nothing."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_code(producer, (E0, E1))
    before = world.log.appends
    assert world.add_code(producer, (E1,)) is ErrorCode.NONE
    assert world.log.appends == before


def test_next_transaction_begins_empty() -> None:
    """The next transaction does not contain the partitions of the previous one."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_code(producer, (E0,), version=5)
    following = world.ended(producer)
    world.settle()
    world.add_code(following, (E1,), version=5)
    assert world.transaction().partitions == {E1}


def test_only_the_current_producer_adds() -> None:
    """Only the current producer id and epoch may add partitions; unknown and empty transactional ids are refused."""
    world = TransactionWorld()
    producer_id, epoch = world.inited()
    assert world.add_code((producer_id + 1, epoch)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.add_code((producer_id, epoch + 1)) is ErrorCode.PRODUCER_FENCED
    assert world.add_code((producer_id, epoch), (E0,), "other") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.add_code((producer_id, epoch), (E0,), "") is ErrorCode.INVALID_REQUEST


def test_nothing_is_added_while_markers_are_written() -> None:
    """While markers are written no producer may add partitions, not even the producer of the next epoch."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_code(producer)
    world.marker_logs.refusals[E0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    following = world.ended(producer)
    for asked in (producer, following, (5, 5)):
        assert world.add_code(asked, (E1,)) is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize(("version", "transaction_version"), [(3, 0), (4, 2), (5, 2)])
def test_version_says_for_which_clients(version: int, transaction_version: int) -> None:
    """Requests of brokers (version 4 and above) are for clients of transaction version 2."""
    world = TransactionWorld()
    world.add_code(world.inited(), version=version)
    assert world.transaction().client_transaction_version == transaction_version


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_old_clients_know_fencing_by_another_name(version: int, code: ErrorCode) -> None:
    """Clients below version 2 get INVALID_PRODUCER_EPOCH, because PRODUCER_FENCED came with version 2."""
    world = TransactionWorld()
    first = world.inited()
    world.inited()
    assert world.add_code(first, version=version) is code


# Requests that brokers make before they write


def test_verification_tells_what_was_added() -> None:
    """Verification gives TRANSACTION_ABORTABLE for a partition that was not added, and adds nothing."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_code(producer, (E0,))
    found = world.add_by_broker(producer, (E0, E1), verify_only=True)
    assert found == {E0: ErrorCode.NONE, E1: ErrorCode.TRANSACTION_ABORTABLE}
    assert world.transaction().partitions == {E0}


def test_verification_knows_the_producer() -> None:
    """Verification gives a fenced producer INVALID_PRODUCER_EPOCH, the error code that partitions use."""
    world = TransactionWorld()
    producer_id, epoch = world.inited()
    assert world.add_by_broker((producer_id, epoch + 1), verify_only=True) == {E0: ErrorCode.INVALID_PRODUCER_EPOCH}
    assert world.add_by_broker((7, 0), verify_only=True) == {E0: ErrorCode.INVALID_PRODUCER_ID_MAPPING}


def test_verification_does_not_wait_for_another_transaction() -> None:
    """Verification does not wait for markers, because a late batch must not count as part of the next transaction."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_code(producer, (E0,))
    world.marker_logs.refusals[E0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.now(world.end(producer, version=4))
    before_ms = world.timers.now_ms()
    assert world.add_by_broker(producer, (E1,), verify_only=True) == {E1: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert world.timers.now_ms() == before_ms


def test_broker_adds_for_the_producer() -> None:
    """KIP-890: a broker adds a partition for the producer when the first batch for the partition arrives."""
    world = TransactionWorld()
    producer = world.inited()
    assert world.add_by_broker(producer, (E0, E1)) == {E0: ErrorCode.NONE, E1: ErrorCode.NONE}
    assert world.transaction().client_transaction_version == 2
    assert world.add_by_broker((producer[0], 9)) == {E0: ErrorCode.INVALID_PRODUCER_EPOCH}


def test_broker_waits_for_the_markers_of_the_transaction_before() -> None:
    """A broker's addition waits for the markers of the previous transaction, so that the producer need not retry."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_by_broker(producer)
    world.marker_logs.refusals[E0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    following = world.ended(producer)
    world.settle()
    world.timers.call_at(world.timers.now_ms() + 50, world.marker_logs.refusals.clear)
    world.timers.advance(50)
    assert world.add_by_broker(following, (E1,)) == {E1: ErrorCode.NONE}


def test_broker_does_not_wait_for_long() -> None:
    """A broker's addition waits for `add.partitions.to.txn.retry.backoff.max.ms`; then the producer must retry."""
    world = TransactionWorld(config=TransactionCoordinatorConfig(add_retry_max_ms=40))
    producer = world.inited()
    world.add_by_broker(producer)
    world.marker_logs.refusals[E0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    following = world.ended(producer)
    before_ms = world.timers.now_ms()
    assert world.add_by_broker(following, (E1,)) == {E1: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert 40 <= world.timers.now_ms() - before_ms <= 61
    assert world.transaction(ID).partitions == {E0}


def test_broker_that_stops_waiting_leaves_no_alarm() -> None:
    """An addition that waits for a marker leaves no alarm when it is cancelled, for example by a closed connection."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_by_broker(producer)
    world.marker_logs.refusals[E0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    following = world.ended(producer)
    alarms = world.timers.waiting
    asked = world.coordinator.add_partitions(
        ID, ProducerId(following[0]), ProducerEpoch(following[1]), [E1], verify_only=False
    )
    asked.send(None)
    assert world.timers.waiting == alarms + 1
    asked.close()
    assert world.timers.waiting == alarms


def test_broker_that_stops_waiting_just_when_the_pause_is_over() -> None:
    """The alarm of a pause may ring before the cancelled addition gets its turn; then it does nothing."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_by_broker(producer)
    world.marker_logs.refusals[E0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    following = world.ended(producer)

    async def scenario() -> None:
        world.coordinator._promises = asyncio.get_running_loop()
        asked = asyncio.ensure_future(
            world.coordinator.add_partitions(
                ID, ProducerId(following[0]), ProducerEpoch(following[1]), [E1], verify_only=False
            )
        )
        await asyncio.sleep(0)
        asked.cancel()
        world.timers.advance(world.config.add_retry_ms)
        with pytest.raises(asyncio.CancelledError):
            await asked

    asyncio.run(scenario())
