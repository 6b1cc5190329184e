"""Tests EndTxn in both transaction versions: which transactions may end in which way, and the answer to a retry."""

from __future__ import annotations

import pytest
from tests.unit.core.txn.test_initializations import EXHAUSTED, with_epoch
from tests.unit.runtime.transaction_world import E0, E1, ID, TransactionWorld

from klamm.core.txn.transaction_state import TransactionState
from klamm.protocol.errors import ErrorCode

TV1, TV2 = 4, 5
"""The EndTxn versions that stand for transaction versions 1 and 2."""


def complete(world: TransactionWorld, *, commit: bool, version: int) -> tuple[int, int]:
    """Runs a transaction to its end; returns the id's producer id and epoch after it."""
    producer = world.inited()
    world.add_code(producer, (E0,), version=3 if version == TV1 else 5)
    world.end_code(producer, commit=commit, version=version)
    world.settle()
    transaction = world.transaction()
    return transaction.producer_id, transaction.producer_epoch


@pytest.mark.parametrize("commit", [True, False])
def test_each_transaction_has_an_epoch_of_its_own(commit: bool) -> None:
    """KIP-890: the end of a transaction bumps the epoch; the answer and the marker have the next epoch."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_code(producer, (E1, E0), version=5)
    following = world.ended(producer, commit=commit)
    assert following == (producer[0], producer[1] + 1)
    assert world.state() is (TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT)
    world.settle()
    assert world.state() is (TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT)
    (marker,) = world.marker_logs.markers
    assert (marker.producer_id, marker.producer_epoch) == following
    assert marker.is_commit is commit
    assert marker.partitions == (E0, E1)
    assert marker.transaction_version == 2
    assert not world.transaction().partitions


def test_epoch_stays_for_older_clients() -> None:
    """Under version 1 the epoch does not change, and the marker has the epoch of the records."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_code(producer)
    assert world.ended(producer, version=TV1) == (-1, -1)
    world.settle()
    (marker,) = world.marker_logs.markers
    assert (marker.producer_id, marker.producer_epoch) == producer
    assert marker.transaction_version == 0
    assert world.add_code(producer) is ErrorCode.NONE


@pytest.mark.parametrize("is_retry", [True, False])
@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", ["Empty", "CompleteAbort", "CompleteCommit"])
def test_what_is_not_open_in_version_2(state: str, commit: bool, is_retry: bool) -> None:
    """Under version 2, EndTxn without an open transaction is answered by Kafka's table, which this test contains."""
    fenced, invalid = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE
    done = bumped = ErrorCode.NONE
    table = {
        ("Empty", False): (fenced, bumped),
        ("Empty", True): (fenced, invalid),
        ("CompleteAbort", False): (done, bumped),
        ("CompleteAbort", True): (invalid, invalid),
        ("CompleteCommit", False): (invalid, bumped),
        ("CompleteCommit", True): (done, invalid),
    }
    world = TransactionWorld()
    if state == "Empty":
        world.inited()
        current = world.inited()
    else:
        current = complete(world, commit=state == "CompleteCommit", version=TV2)
    asked = (current[0], current[1] - 1) if is_retry else current
    on_retry, on_current = table[state, commit]
    assert world.end_code(asked, commit=commit) is (on_retry if is_retry else on_current)
    world.settle()
    epoch = world.transaction().producer_epoch
    is_bumped = not is_retry and on_current is bumped
    assert epoch == current[1] + (1 if is_bumped else 0)


def test_retry_is_told_what_the_first_was() -> None:
    """A retry whose first answer was lost gets the same next epoch, and no second marker is written."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_code(producer, version=5)
    following = world.ended(producer)
    assert world.end_code(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    world.settle()
    assert world.ended(producer) == following
    assert len(world.marker_logs.markers) == 1


def test_abort_of_what_has_not_begun_has_no_markers() -> None:
    """A client of version 2 may abort without an added partition, since it may not know of any. It gets a new epoch,
    and no marker is written."""
    world = TransactionWorld()
    producer = world.inited()
    assert world.ended(producer, commit=False) == (producer[0], producer[1] + 1)
    world.settle()
    assert world.state() is TransactionState.COMPLETE_ABORT
    assert not world.marker_logs.markers
    assert world.transaction().start_timestamp > 0


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("state", ["Empty", "CompleteAbort", "CompleteCommit"])
def test_what_is_not_open_in_version_1(state: str, commit: bool) -> None:
    """Under version 1, an ended transaction can be ended again only with the same outcome."""
    world = TransactionWorld()
    is_commit = state == "CompleteCommit"
    producer = world.inited() if state == "Empty" else complete(world, commit=is_commit, version=TV1)
    is_same = state == ("CompleteCommit" if commit else "CompleteAbort")
    code = world.end_code(producer, commit=commit, version=TV1)
    assert code is (ErrorCode.NONE if is_same else ErrorCode.INVALID_TXN_STATE)


@pytest.mark.parametrize("version", [TV1, TV2])
def test_others_can_not_end_it(version: int) -> None:
    """EndTxn with another producer id, another epoch, or an unknown or empty transactional id is refused."""
    world = TransactionWorld()
    producer_id, epoch = world.inited()
    world.add_code((producer_id, epoch))
    assert world.end_code((producer_id + 1, epoch), version=version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.end_code((producer_id, epoch + 1), version=version) is ErrorCode.PRODUCER_FENCED
    assert world.end_code((producer_id, epoch), "other", version=version) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.end_code((producer_id, epoch), "", version=version) is ErrorCode.INVALID_REQUEST
    assert world.state() is TransactionState.ONGOING


def test_nobody_ends_what_is_ending() -> None:
    """EndTxn is refused while a transaction is ending. Version 2 checks this first, because the producer may already
    have its next id."""
    world = TransactionWorld()
    producer = world.inited()
    world.add_code(producer)
    world.marker_logs.refusals[E0] = ErrorCode.NOT_ENOUGH_REPLICAS
    world.ended(producer)
    for asked in (producer, (producer[0], 1), (producer[0] + 1, 0)):
        assert world.end_code(asked) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert world.end_code((producer[0] + 1, 0), version=TV1) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert world.end_code(producer, version=TV1) is ErrorCode.PRODUCER_FENCED
    assert world.end_code((producer[0], 1), version=TV1) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_last_epoch_of_a_producer_id_brings_the_next() -> None:
    """At the last epoch the answer has a new producer id. The marker has the old id, and a retry with the old id is
    recognized."""
    world = TransactionWorld()
    used_up = with_epoch(world, EXHAUSTED)
    world.add_code(used_up, version=5)
    following = world.ended(used_up)
    assert following[0] != used_up[0]
    assert following[1] == 0
    assert world.transaction().producer_id == used_up[0]
    world.settle()
    (marker,) = world.marker_logs.markers
    assert (marker.producer_id, marker.producer_epoch) == (used_up[0], EXHAUSTED + 1)
    transaction = world.transaction()
    assert (transaction.producer_id, transaction.producer_epoch) == following
    assert world.ended(used_up) == following
    assert world.add_code(following, version=5) is ErrorCode.NONE


def test_end_at_the_last_epoch_survives_a_restart() -> None:
    """The next producer id survives a restart, because the record of the outcome contains it."""
    world = TransactionWorld()
    used_up = with_epoch(world, EXHAUSTED)
    world.add_code(used_up, version=5)
    world.marker_logs.fails = True
    following = world.ended(used_up)
    world.settle()
    world.marker_logs.fails = False
    again = world.restart()
    again.settle()
    transaction = again.transaction()
    assert transaction.state is TransactionState.COMPLETE_COMMIT
    assert (transaction.producer_id, transaction.producer_epoch) == following


def test_without_a_producer_id_at_hand_the_client_asks_again() -> None:
    """Without an available producer id the client gets COORDINATOR_LOAD_IN_PROGRESS, as in Kafka, until one is
    there."""
    world = TransactionWorld()
    used_up = with_epoch(world, EXHAUSTED)
    world.add_code(used_up, version=5)
    world.has_producer_ids = False
    world.coordinator._producer_ids._at_hand.clear()
    assert world.end_code(used_up) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.state() is TransactionState.ONGOING
    world.settle()
    assert world.end_code(used_up) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.has_producer_ids = True
    world.settle()
    assert world.end_code(used_up) is ErrorCode.NONE


@pytest.mark.parametrize(("version", "code"), [(1, ErrorCode.INVALID_PRODUCER_EPOCH), (2, ErrorCode.PRODUCER_FENCED)])
def test_old_clients_know_fencing_by_another_name(version: int, code: ErrorCode) -> None:
    """Clients below version 2 get INVALID_PRODUCER_EPOCH, because PRODUCER_FENCED came with version 2."""
    world = TransactionWorld()
    first = world.inited()
    world.inited()
    assert world.end_code(first, ID, version=version) is code
