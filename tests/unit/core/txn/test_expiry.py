"""Tests expiry: transactions that are open for too long, and transactional ids that are not used."""

from __future__ import annotations

from unittest.mock import patch

from tests.unit.runtime.transaction_world import E0, ID, TransactionWorld

from klamm.core.txn.coordinator_config import TransactionCoordinatorConfig
from klamm.core.txn.transaction_state import TransactionState
from klamm.protocol.errors import ErrorCode

LONG_MS = 7_200_000


def test_transaction_that_is_open_for_too_long_is_aborted() -> None:
    """A transaction that exceeds its timeout is aborted. Its producer is fenced, because it may be about to write."""
    world = TransactionWorld()
    producer = world.inited(timeout_ms=15_000)
    world.add_code(producer)
    world.timers.advance(15_000)
    assert world.state() is TransactionState.ONGOING
    world.timers.advance(10_000)
    assert world.state() is TransactionState.COMPLETE_ABORT
    (marker,) = world.marker_logs.markers
    assert not marker.is_commit
    assert marker.producer_epoch == producer[1] + 1
    assert world.end_code(producer, version=4) is ErrorCode.PRODUCER_FENCED
    assert world.add_code(producer) is ErrorCode.PRODUCER_FENCED


def test_timeout_counts_from_the_first_partition() -> None:
    """The timeout starts with the first partition, not with the initialization; more partitions do not extend it."""
    world = TransactionWorld()
    producer = world.inited(timeout_ms=15_000)
    world.timers.advance(100_000)
    world.add_code(producer)
    world.timers.advance(9_000)
    world.add_code(producer, (E0,))
    world.timers.advance(4_000)
    assert world.state() is TransactionState.ONGOING
    world.timers.advance(12_001)
    assert world.state() is TransactionState.COMPLETE_ABORT


def test_timeout_is_known_after_a_restart() -> None:
    """The timeout still applies after a restart, because the log has the start time of the transaction."""
    world = TransactionWorld()
    world.add_code(world.inited(timeout_ms=30_000))
    again = world.restart()
    again.timers.advance(40_001)
    assert again.state() is TransactionState.COMPLETE_ABORT


def test_many_are_aborted_in_steps() -> None:
    """Many transactions that exceed their timeout together are all aborted."""
    world = TransactionWorld()
    ids = [f"{ID}-{index}" for index in range(250)]
    for transactional_id in ids:
        world.add_code(world.inited(transactional_id, timeout_ms=1000), (E0,), transactional_id)
    world.timers.advance(12_000)
    assert {world.transaction(each).state for each in ids} == {TransactionState.COMPLETE_ABORT}


def test_abort_that_can_not_be_written_is_tried_again() -> None:
    """A timeout abort that cannot be written is tried again at the next check."""
    world = TransactionWorld()
    world.add_code(world.inited(timeout_ms=1000))
    world.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    world.timers.advance(12_000)
    assert world.state() is TransactionState.ONGOING
    world.log.append_error = None
    world.timers.advance(12_000)
    assert world.state() is TransactionState.COMPLETE_ABORT


def test_aborts_that_are_refused_wait_for_the_next_check() -> None:
    """If more transactions are to be aborted than fit into one step, and the log refuses the step, the next one waits
    for the next check. Then all are aborted."""
    config = TransactionCoordinatorConfig(abort_interval_ms=10_000)
    world = TransactionWorld(config=config)
    ids = [f"{ID}-{index}" for index in range(150)]
    for transactional_id in ids:
        world.add_code(world.inited(transactional_id, timeout_ms=1000), (E0,), transactional_id)
    refused = 0
    append = world.log.append

    def counted(*arguments: object, **named: object) -> object:
        nonlocal refused
        refused += 1
        return append(*arguments, **named)  # type: ignore[arg-type]

    with patch.object(world.log, "append", counted):
        world.log.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
        world.timers.advance(60_000)
    assert 5 <= refused <= 7

    world.log.append_error = None
    world.timers.advance(20_000)
    assert {world.transaction(each).state for each in ids} == {TransactionState.COMPLETE_ABORT}


def test_id_that_nobody_uses_is_forgotten() -> None:
    """An unused transactional id is removed after `transactional.id.expiration.ms`, also from the log."""
    world = TransactionWorld(config=TransactionCoordinatorConfig(id_expiration_ms=LONG_MS))
    world.inited("unused")
    used = world.inited("ended")
    world.add_code(used, (E0,), "ended")
    world.ended(used, "ended")
    world.timers.advance(LONG_MS - 1)
    assert len(world.shard.store.transactions) == 2
    world.timers.advance(7_200_000)
    assert not world.shard.store.transactions
    assert not world.restart().shard.store.transactions


def test_open_transactions_keep_their_ids() -> None:
    """An open transaction, and one whose markers cannot be written, keep their transactional ids for any time."""
    config = TransactionCoordinatorConfig(id_expiration_ms=1000, max_timeout_ms=2**31 - 1, expiry_interval_ms=1000)
    world = TransactionWorld(config=config)
    world.add_code(world.inited(timeout_ms=2**31 - 1))
    ending = world.inited("ending")
    world.add_code(ending, (E0,), "ending")
    world.marker_logs.refusals[E0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.ended(ending, "ending")
    world.timers.advance(5 * LONG_MS)
    assert set(world.shard.store.transactions) == {ID, "ending"}


def test_use_keeps_an_id() -> None:
    """Each use of a transactional id restarts its expiry; an expired id gets another producer id."""
    world = TransactionWorld(config=TransactionCoordinatorConfig(id_expiration_ms=LONG_MS))
    first = world.inited()
    world.timers.advance(LONG_MS - 1_000_000)
    second = world.inited()
    world.timers.advance(LONG_MS - 1_000_000)
    assert world.inited() == (first[0], second[1] + 1)
    world.timers.advance(2 * LONG_MS)
    third = world.inited()
    assert third[0] != first[0]
    assert third[1] == 0
