"""Tests what worlds of brokers find in the answers to the members of a group, over several coordinators."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest
from tests.simulation.brokers.client_world import ClientWorld
from tests.simulation.brokers.groups import GroupLedger
from tests.simulation.violation import Violation

from klamm.protocol.types import PartitionIndex, TopicPartition

ONE, TWO = (TopicPartition("topic", PartitionIndex(index)) for index in (0, 1))
COMPARED = 0
"""The life of all answers in a world whose lives are compared."""


class _Group:
    """A ledger, and the clock of its world."""

    def __init__(self, *, may_lose: bool = False) -> None:
        self._loop = SimpleNamespace(now_ms=0.0)
        plan = SimpleNamespace(may_lose=may_lose, has_stalled_links=False)
        self.one = SimpleNamespace(high_watermark=0, deleted=0)
        world = SimpleNamespace(loop=self._loop, plan=plan, partitions=[ONE, TWO], is_ending=False)
        world.model = SimpleNamespace(partitions={ONE: self.one})
        world.may_have_lost_since = lambda life: False
        self.ledger = GroupLedger(cast("ClientWorld", world))

    def at(self, now_ms: float) -> GroupLedger:
        self._loop.now_ms = now_ms
        return self.ledger

    def assign(
        self, name: str, generation: int, *partitions: TopicPartition, safe_until_ms: float, life: int = COMPARED
    ) -> None:
        """A member of a classic group gets the partitions that its leader has given it."""
        shares = frozenset(partitions)
        self.ledger.shares(generation, {name: shares})
        self.ledger.assigned(name, name, life, generation, shares, safe_until_ms=safe_until_ms)


def _breaks(invariant: int, act: Callable[[], None]) -> None:
    with pytest.raises(Violation) as raised:
        act()
    assert raised.value.invariant == invariant


def test_next_coordinator_must_not_reassign_a_partition_of_a_live_member() -> None:
    """I15: a partition is not assigned in a later generation while its owner of an earlier one, which was heard, can't
    have been removed."""
    group = _Group()
    group.assign("first", 1, ONE, TWO, safe_until_ms=250.0)
    group.at(100.0).is_safe_until("first", 350.0)
    group.at(300.0)
    _breaks(15, lambda: group.assign("second", 2, TWO, safe_until_ms=500.0))


def test_partition_of_a_silent_member_may_be_reassigned() -> None:
    """A partition may be assigned to another member when the session of its owner may have ended, or when the owner has
    given it up. An answer that comes too late is not compared."""
    group = _Group()
    group.assign("first", 1, ONE, safe_until_ms=250.0)
    group.at(250.0)
    group.assign("second", 2, ONE, safe_until_ms=400.0)
    group.at(300.0).gives_up("second")
    group.assign("third", 3, ONE, safe_until_ms=500.0)
    group.at(450.0)
    group.assign("late", 4, ONE, safe_until_ms=400.0)


def test_same_generation_has_one_owner_per_partition_in_all_lives() -> None:
    """I15: a generation that was written is the same for all coordinators. Lives that may not be compared are apart."""
    group = _Group()
    group.assign("first", 1, ONE, safe_until_ms=0.0)
    _breaks(15, lambda: group.assign("second", 1, ONE, safe_until_ms=0.0))
    other = _Group(may_lose=True)
    other.assign("first", 1, ONE, safe_until_ms=250.0, life=1)
    other.assign("second", 1, ONE, safe_until_ms=250.0, life=2)


def test_next_coordinator_of_a_consumer_group_must_wait_for_the_revocation() -> None:
    """I15: a partition that a member still reports is given to no other member, whichever coordinator answers; a
    partition that it does not report any more may be."""
    group = _Group()
    group.ledger.told("first", COMPARED, 1, frozenset({ONE, TWO}), 250.0)
    group.at(50.0).told("first", COMPARED, 1, frozenset({ONE}), 300.0)
    _breaks(15, lambda: group.ledger.told("second", COMPARED, 2, frozenset({TWO}), 300.0))
    group.at(100.0).says("first", {ONE})
    group.ledger.told("second", COMPARED, 2, frozenset({TWO}), 300.0)
    other = _Group(may_lose=True)
    other.ledger.told("first", 1, 1, frozenset({ONE}), 250.0)
    other.ledger.told("second", 2, 2, frozenset({ONE}), 250.0)


def test_commit_of_a_former_owner_must_not_be_accepted() -> None:
    """I16: a commit with an epoch before that of the present owner is refused, if it was sent after the owner was told
    of the partition."""
    group = _Group()
    group.ledger.told("first", COMPARED, 1, frozenset({ONE}), 250.0)
    group.at(300.0).told("second", COMPARED, 2, frozenset({ONE}), 550.0)
    group.ledger.accepted("first", ONE, 1, -1, 290.0)
    group.ledger.accepted("second", ONE, 2, -1, 310.0)
    _breaks(16, lambda: group.ledger.accepted("first", ONE, 1, -1, 310.0))


def test_commit_of_another_member_must_not_be_accepted() -> None:
    """I15: while a live member has a partition, no commit of another member is accepted for it, in any epoch."""
    group = _Group()
    group.ledger.told("first", COMPARED, 1, frozenset({ONE}), 250.0)
    group.at(100.0).accepted("second", TWO, 1, -1, 90.0)
    _breaks(15, lambda: group.ledger.accepted("second", ONE, 1, -1, 90.0))
    group.at(250.0).accepted("second", ONE, 1, -1, 90.0)


def test_member_must_not_find_an_offset_above_the_high_watermark() -> None:
    """I18: a committed offset is not above the high watermark that clients were told, nor above the deleted records: a
    member whose position is deleted goes on, and commits, where the log begins."""
    group = _Group()
    group.ledger.commits(ONE, 7)
    group.one.high_watermark = group.one.deleted = 6
    _breaks(18, lambda: group.ledger.found("first", ONE, 7))
    group.one.deleted = 7
    group.ledger.found("first", ONE, 7)
    group.one.high_watermark, group.one.deleted = 7, 0
    group.ledger.found("first", ONE, 7)


def test_member_must_not_lose_a_partition_while_nothing_happens() -> None:
    """I19: in a group that must keep its partitions, no member loses one; before that, a group rests when its members
    have all partitions, were heard and have not changed for some time."""
    group = _Group()
    group.ledger.told("first", COMPARED, 1, frozenset({ONE}), 250.0)
    assert not group.at(200.0).rests(1, 100.0)
    group.ledger.told("second", COMPARED, 1, frozenset({TWO}), 450.0)
    assert not group.ledger.rests(2, 100.0)
    assert not group.at(300.0).rests(2, 100.0)
    group.ledger.told("first", COMPARED, 1, frozenset({ONE}), 550.0)
    assert group.ledger.rests(2, 100.0)
    group.ledger.must_keep = True
    group.ledger.told("first", COMPARED, 1, frozenset({ONE}), 600.0)
    _breaks(19, lambda: group.ledger.says("first", set()))
    _breaks(19, lambda: group.ledger.gives_up("second"))
