"""Groups that are assigned by load rebalance when that is worth it, and at no other time."""

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
    """Groups are assigned by load unless they ask for something else."""

    assignors: ClassVar[Mapping[str, Assignor]] = {name: BUILT_IN[name] for name in ("load", "uniform")}

    def look(self, rates: Sequence[float | None]) -> None:
        """Somebody has measured the partitions of the topic."""
        partitions = [None if rate is None else PartitionTraffic(Offset(0), Offset(0), rate) for rate in rates]
        self.apply(self.shard.on_traffic({EVENTS: partitions}, self.now))
        self.advance(0)
        self.run_tasks()

    def load_causes(self) -> list[RebalanceNeeded]:
        return [event for event in self.happened(RebalanceNeeded) if event.cause is Cause.LOAD_REBALANCED]

    def busy_together(self, one: int, other: int) -> bool:
        return self.owner(one) == self.owner(other)


def settled(driver: LoadDriver, *member_ids: str, assignor: str | None = None) -> LoadDriver:
    """The driver with a group at rest; six partitions are shared evenly, three each."""
    for member_id in member_ids:
        driver.enter(member_id, assignor=assignor)
    driver.settle(*member_ids)
    return driver


def hot(driver: LoadDriver) -> list[float | None]:
    """Rates at which the first member has all the work."""
    return [1000.0 if driver.owner(partition) == "a" else 0.0 for partition in range(6)]


def test_a_member_with_all_the_work_gives_some_away() -> None:
    """The epoch rises with load as its cause, and the busy partitions end with both members."""
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
    """However high they are, and while they differ by less than the hysteresis."""
    driver = settled(LoadDriver(settings=NO_DWELL), "a", "b")
    driver.look([5000.0] * 6)
    driver.look([500.0 + partition for partition in range(6)])
    assert driver.load_causes() == []


def test_without_figures_nothing_moves() -> None:
    """A broker that does not lead the partitions knows nothing of them."""
    driver = settled(LoadDriver(settings=NO_DWELL), "a", "b")
    driver.look([None] * 6)
    assert driver.load_causes() == []


def test_a_group_that_wants_another_assignor_is_left_alone() -> None:
    """Its members asked for it."""
    driver = settled(LoadDriver(settings=NO_DWELL), "a", "b", assignor="uniform")
    driver.look(hot(driver))
    assert driver.load_causes() == []


def test_a_group_rests_for_the_dwell_time() -> None:
    """After a rebalance, whatever its cause; then the same figures count."""
    driver = settled(LoadDriver(settings=slow(assignment_interval_ms=0, load={"min.dwell.ms": 20_000.0})), "a", "b")
    rates = hot(driver)
    driver.look(rates)
    assert driver.load_causes() == []
    driver.advance(20_000)
    driver.settle("a", "b")
    driver.look(rates)
    assert len(driver.load_causes()) == 1


def test_a_group_on_its_way_is_not_disturbed() -> None:
    """Members that let go of partitions already are given time."""
    driver = settled(LoadDriver(settings=NO_DWELL), "a", "b")
    driver.enter("c")
    driver.look(hot(driver))
    assert driver.load_causes() == []


def test_a_new_member_is_given_its_share_of_the_load() -> None:
    """The figures count for every target, not only for those made because of them."""
    driver = settled(LoadDriver(settings=NO_DWELL), "a")
    driver.look([1000.0, 1000.0, 0.0, 0.0, 0.0, 0.0])
    driver.enter("b")
    driver.settle("a", "b")
    assert not driver.busy_together(0, 1)


def test_a_large_group_is_weighed_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the outcome is believed only if nothing has happened to the group meanwhile."""
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
