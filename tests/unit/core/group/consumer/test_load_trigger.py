"""Tests of rebalances for load: a group rebalances if the improvement is large enough, and otherwise not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import pytest
from tests.unit.core.group.consumer.consumer_driver import EVENTS, ConsumerDriver, slow

from klamm.core.group.assignors.assignor import Assignor
from klamm.core.group.assignors.built_in import BUILT_IN
from klamm.core.group.consumer import load_trigger
from klamm.core.group.events import Cause, RebalanceNeeded
from klamm.core.group.partition_traffic import PartitionTraffic
from klamm.protocol.types import Offset

NO_DWELL = slow(assignment_interval_ms=0, load={"min.dwell.ms": 0.0})


class LoadDriver(ConsumerDriver):
    """A driver whose groups use the assignor `load` by default."""

    assignors: ClassVar[Mapping[str, Assignor]] = {name: BUILT_IN[name] for name in ("load", "uniform")}

    def look(self, rates: Sequence[float | None]) -> None:
        """Reports traffic figures for the partitions of the topic, and runs the tasks that follow."""
        partitions = [None if rate is None else PartitionTraffic(Offset(0), Offset(0), rate) for rate in rates]
        self.apply(self.shard.on_traffic({EVENTS: partitions}, self.now))
        self.advance(0)
        self.run_tasks()

    def load_causes(self) -> list[RebalanceNeeded]:
        return [event for event in self.happened(RebalanceNeeded) if event.cause is Cause.LOAD_REBALANCED]

    def busy_together(self, one: int, other: int) -> bool:
        return self.owner(one) == self.owner(other)


def settled(driver: LoadDriver, *member_ids: str, assignor: str | None = None) -> LoadDriver:
    """Returns the driver with a stable group of these members; two members get three partitions each."""
    for member_id in member_ids:
        driver.enter(member_id, assignor=assignor)
    driver.settle(*member_ids)
    return driver


def hot(driver: LoadDriver) -> list[float | None]:
    """Returns rates with which member a has the whole load."""
    return [1000.0 if driver.owner(partition) == "a" else 0.0 for partition in range(6)]


def test_a_member_with_all_the_work_gives_some_away() -> None:
    """A rebalance for load raises the epoch once, and moves busy partitions to the idle member."""
    driver = settled(LoadDriver(settings=NO_DWELL), "a", "b")
    rates = hot(driver)
    epoch = driver.consumer_group().epoch
    driver.look(rates)
    assert driver.consumer_group().epoch == epoch + 1
    assert [(event.cause, event.member_id) for event in driver.load_causes()] == [(Cause.LOAD_REBALANCED, None)]
    driver.settle("a", "b")
    owners = {driver.owner(partition) for partition, rate in enumerate(rates) if rate}
    assert owners == {"a", "b"}
    driver.look(rates)
    assert len(driver.load_causes()) == 1


def test_even_loads_move_nothing() -> None:
    """High loads start no rebalance while their differences are below the hysteresis."""
    driver = settled(LoadDriver(settings=NO_DWELL), "a", "b")
    driver.look([5000.0] * 6)
    driver.look([500.0 + partition for partition in range(6)])
    assert driver.load_causes() == []


def test_without_figures_nothing_moves() -> None:
    """Partitions without figures start no rebalance; a broker has none for partitions that it does not lead."""
    driver = settled(LoadDriver(settings=NO_DWELL), "a", "b")
    driver.look([None] * 6)
    assert driver.load_causes() == []


def test_a_group_that_wants_another_assignor_is_left_alone() -> None:
    """A group whose members chose another assignor does not rebalance for load."""
    driver = settled(LoadDriver(settings=NO_DWELL), "a", "b", assignor="uniform")
    driver.look(hot(driver))
    assert driver.load_causes() == []


def test_a_group_rests_for_the_dwell_time() -> None:
    """After a rebalance for any cause, a group does not rebalance for load within the dwell time."""
    driver = settled(LoadDriver(settings=slow(assignment_interval_ms=0, load={"min.dwell.ms": 20_000.0})), "a", "b")
    rates = hot(driver)
    driver.look(rates)
    assert driver.load_causes() == []
    driver.advance(20_000)
    driver.settle("a", "b")
    driver.look(rates)
    assert len(driver.load_causes()) == 1


def test_a_group_on_its_way_is_not_disturbed() -> None:
    """A group does not rebalance for load while its members still reconcile."""
    driver = settled(LoadDriver(settings=NO_DWELL), "a", "b")
    driver.enter("c")
    driver.look(hot(driver))
    assert driver.load_causes() == []


def test_a_new_member_is_given_its_share_of_the_load() -> None:
    """The load figures apply to every target assignment, including that for a new member."""
    driver = settled(LoadDriver(settings=NO_DWELL), "a")
    driver.look([1000.0, 1000.0, 0.0, 0.0, 0.0, 0.0])
    driver.enter("b")
    driver.settle("a", "b")
    assert not driver.busy_together(0, 1)


def test_a_large_group_is_weighed_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The load of a large group is weighed in a task, and the outcome is dropped if the group changed meanwhile."""
    monkeypatch.setattr(load_trigger, "INLINE_LIMIT", 0)
    driver = settled(LoadDriver(settings=NO_DWELL), "a", "b")
    driver.look(hot(driver))
    assert len(driver.load_causes()) == 1
    driver.settle("a", "b")
    rates = hot(driver)
    partitions = [PartitionTraffic(Offset(0), Offset(0), rate or 0.0) for rate in rates]
    driver.apply(driver.shard.on_traffic({EVENTS: partitions}, driver.now))
    driver.advance(0)
    driver.enter("c")
    driver.run_tasks()
    assert len(driver.load_causes()) == 1
