"""Tests InitProducerId of transactional ids: which epoch a producer gets, and which producers it fences."""

from __future__ import annotations

import pytest
from tests.unit.runtime.transaction_world import E0, ID, TransactionWorld

from klamm.core.txn.transaction_state import TransactionState
from klamm.protocol.errors import ErrorCode

EXHAUSTED = 32_766


def with_epoch(world: TransactionWorld, epoch: int) -> tuple[int, int]:
    """Initializes the id and sets its epoch in memory, as if after many bumps; returns producer id and epoch."""
    producer_id, _ = world.inited()
    record = world.shard.store.transactions[ID]
    world.shard.store.transactions[ID] = type(record)(
        **{name: getattr(record, name) for name in record.__dataclass_fields__} | {"producer_epoch": epoch}
    )
    return producer_id, epoch


def test_new_id_gets_a_new_producer_id_and_epoch_0() -> None:
    """A new transactional id gets a new producer id and epoch 0, which are known after a restart."""
    world = TransactionWorld()
    producer = world.inited()
    assert producer == (1000, 0)
    transaction = world.restart().transaction()
    assert (transaction.producer_id, transaction.producer_epoch) == producer
    assert transaction.state is TransactionState.EMPTY
    assert transaction.timeout_ms == 60_000


def test_each_producer_gets_the_next_epoch() -> None:
    """Each initialization gives the next epoch, so that the previous producer is fenced."""
    world = TransactionWorld()
    first, second = world.inited(), world.inited()
    assert second == (first[0], first[1] + 1)
    assert world.add_code(first) is ErrorCode.PRODUCER_FENCED
    assert world.add_code(second) is ErrorCode.NONE


def test_ids_do_not_share_producer_ids() -> None:
    """Each transactional id has its own producer id."""
    world = TransactionWorld()
    assert world.inited("a")[0] != world.inited("b")[0]


def test_open_transaction_is_aborted_first() -> None:
    """An initialization aborts an open transaction and must be retried. The retry gets an epoch above the one that
    fenced the old producer."""
    world = TransactionWorld()
    first = world.inited()
    world.add_code(first)
    assert world.init_code() is ErrorCode.CONCURRENT_TRANSACTIONS
    world.settle()
    (marker,) = world.marker_logs.markers
    assert not marker.is_commit
    assert marker.partitions == (E0,)
    assert marker.producer_epoch == first[1] + 1
    assert world.inited() == (first[0], first[1] + 2)
    assert world.end_code(first) is ErrorCode.PRODUCER_FENCED


def test_nobody_is_initialized_while_markers_are_written() -> None:
    """An initialization is refused while markers are written. The outcome must be in all partitions before the next
    transaction begins."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_code(producer)
    world.marker_logs.refusals[E0] = ErrorCode.NOT_LEADER_OR_FOLLOWER
    world.ended(producer)
    world.settle()
    assert world.init_code() is ErrorCode.CONCURRENT_TRANSACTIONS


def test_producer_goes_on_with_its_own_epoch() -> None:
    """KIP-360: a producer that names its epoch gets the next one, and the same one again when it retries."""
    world = TransactionWorld()
    first = world.inited()
    second = world.inited(producer=first)
    assert second == (first[0], 1)
    assert world.inited(producer=first) == second
    assert world.inited(producer=second) == (first[0], 2)
    assert world.init_code(producer=first) is ErrorCode.PRODUCER_FENCED


def test_producer_that_was_replaced_can_not_go_on() -> None:
    """A producer is fenced if another one has initialized the id since, or if its producer id is wrong."""
    world = TransactionWorld()
    first = world.inited()
    world.inited()
    assert world.init_code(producer=first) is ErrorCode.PRODUCER_FENCED
    assert world.init_code(producer=(first[0] + 77, 0)) is ErrorCode.PRODUCER_FENCED


def test_retry_of_a_bump_is_not_known_after_a_restart() -> None:
    """A retry of an epoch bump is fenced after a restart, because the log has no previous epoch, as in Kafka."""
    world = TransactionWorld()
    first = world.inited()
    world.inited(producer=first)
    assert world.restart().init_code(producer=first) is ErrorCode.PRODUCER_FENCED


def test_used_up_epochs_bring_a_new_producer_id() -> None:
    """After the last usable epoch comes a new producer id, because the very last epoch is reserved for fencing."""
    world = TransactionWorld()
    used_up = with_epoch(world, EXHAUSTED)
    fresh = world.inited()
    assert fresh[0] != used_up[0]
    assert fresh[1] == 0


def test_producer_with_a_used_up_epoch_goes_on_with_a_new_id() -> None:
    """A producer at the last usable epoch gets a new producer id, and the same one again when it retries."""
    world = TransactionWorld()
    used_up = with_epoch(world, EXHAUSTED)
    fresh = world.inited(producer=used_up)
    assert fresh[0] != used_up[0]
    assert world.inited(producer=used_up) == fresh


def test_other_epoch_of_a_used_up_id_is_an_error() -> None:
    """Another epoch of a used-up producer id gives UNKNOWN_SERVER_ERROR, as in Kafka."""
    world = TransactionWorld()
    producer_id, _ = with_epoch(world, EXHAUSTED)
    assert world.init_code(producer=(producer_id, 7)) is ErrorCode.UNKNOWN_SERVER_ERROR


def test_fencing_the_last_epoch_brings_a_new_producer_id() -> None:
    """If the abort uses the very last epoch, the id gets a new producer id, and the new producer an epoch of it."""
    world = TransactionWorld()
    used_up = with_epoch(world, EXHAUSTED)
    world.add_code(used_up)
    assert world.init_code() is ErrorCode.CONCURRENT_TRANSACTIONS
    world.settle()
    assert world.marker_logs.markers[0].producer_id == used_up[0]
    assert world.marker_logs.markers[0].producer_epoch == EXHAUSTED + 1
    assert world.transaction().producer_epoch == 0
    fresh = world.inited()
    assert fresh[0] != used_up[0]
    assert fresh[1] == 1


@pytest.mark.parametrize(
    ("timeout_ms", "code"),
    [
        (0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (-1, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        (900_000, ErrorCode.NONE),
        (1, ErrorCode.NONE),
    ],
)
def test_timeout_has_bounds(timeout_ms: int, code: ErrorCode) -> None:
    """A transaction timeout must be positive and at most `transaction.max.timeout.ms`."""
    assert TransactionWorld().init_code(timeout_ms=timeout_ms) is code


def test_empty_id_is_refused() -> None:
    """An empty transactional id is refused; it does not mean that there is none."""
    assert TransactionWorld().init_code("") is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("version", "code"), [(3, ErrorCode.INVALID_PRODUCER_EPOCH), (4, ErrorCode.PRODUCER_FENCED)])
def test_old_clients_know_fencing_by_another_name(version: int, code: ErrorCode) -> None:
    """Clients below version 4 get INVALID_PRODUCER_EPOCH, because PRODUCER_FENCED came with version 4."""
    world = TransactionWorld()
    first = world.inited()
    world.inited()
    assert world.init_code(producer=first, version=version) is code
