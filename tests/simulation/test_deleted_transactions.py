"""Tests what worlds expect of the last stable offset when records are deleted."""

from __future__ import annotations

from types import SimpleNamespace as Stub
from typing import Any, cast

import pytest
from tests.simulation.brokers.client_world import ClientWorld
from tests.simulation.brokers.clients.lookups import Lookups
from tests.simulation.brokers.model import Batch, Model
from tests.simulation.brokers.transactions import Transaction
from tests.simulation.violation import Violation

from klamm.protocol.types import PartitionIndex, TopicPartition

WHERE = TopicPartition("topic", PartitionIndex(0))
TIMEOUT_MS, MARKERS_MS = 5_000, 500.0


class _World:
    """A world with one partition, in which an open transaction has the records 46 to 48 and 57 to 59."""

    def __init__(self) -> None:
        self.model = Model([WHERE], waits_for_disk=False)
        self.partition = self.model.partitions[WHERE]
        self.life = 0
        self.loop = Stub(now_ms=1_000.0)
        self.plan = Stub(transaction_timeout_ms=TIMEOUT_MS, has_full_disk=False, has_failed_syncs=False)
        self.markers_ms = MARKERS_MS
        self.open = Transaction(1, "group", began_ms=0.0, version=2)
        for first_offset in (46, 57):
            self.write(self.open, first_offset)

    def write(self, transaction: Transaction, first_offset: int) -> None:
        values = tuple(f"{transaction.number}/{first_offset + index}".encode() for index in range(3))
        batch = Batch(WHERE, "producer", values, 0, is_idempotent=True, transaction=transaction)
        self.model.begin(batch)
        self.model.acknowledge(batch, first_offset)

    def write_ended(self, first_offset: int) -> None:
        """Writes records of a second transaction, which has ended after 100 ms."""
        ended = Transaction(2, "group", began_ms=0.0, version=2)
        ended.ended = (0, 100.0)
        self.write(ended, first_offset)

    @property
    def first_undecided(self) -> int | None:
        return ClientWorld.first_undecided(cast("Any", self), WHERE)

    def check_ended(self, stable_offset: int, asked_ms: float) -> None:
        lookups: Any = Stub(world=self)
        Lookups._check_ended(lookups, WHERE, stable_offset, asked_ms)


@pytest.mark.parametrize(
    ("deleted", "expected"), [(0, 46), (46, 46), (47, 47), (49, 57), (57, 57), (59, 59), (60, None), (83, None)]
)
def test_an_open_transaction_counts_with_the_records_that_are_not_deleted(deleted: int, expected: int | None) -> None:
    """I11: the log may begin within or behind the transaction. A record that is left is never below the last stable
    offset."""
    world = _World()
    world.partition.deleted = deleted
    assert world.first_undecided == expected


def test_a_transaction_that_has_timed_out_is_not_undecided() -> None:
    """The coordinator may have aborted it."""
    world = _World()
    world.loop.now_ms = TIMEOUT_MS
    assert world.first_undecided is None


def test_an_ended_transaction_does_not_hold_the_last_stable_offset() -> None:
    """I14, also where earlier records are deleted."""
    world = _World()
    world.write_ended(83)
    world.partition.deleted = 82
    world.check_ended(83, 100.0 + MARKERS_MS)
    with pytest.raises(Violation, match="transaction 2 of group has ended, and holds topic-0 at 83"):
        world.check_ended(83, 101.0 + MARKERS_MS)


def test_an_open_transaction_holds_the_last_stable_offset_where_the_log_begins() -> None:
    """Its records are deleted, and the first record that is left is of a transaction that has ended."""
    world = _World()
    world.write_ended(83)
    world.partition.deleted = 83
    world.check_ended(83, 101.0 + MARKERS_MS)
