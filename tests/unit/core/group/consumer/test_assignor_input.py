"""Tests of the group description that an assignor gets."""

from __future__ import annotations

from tests.unit.core.group.consumer.consumer_driver import slow
from tests.unit.core.group.consumer.test_load_trigger import LoadDriver

from klamm.core.group.assignors.previous_owners import returning_owners
from klamm.core.group.consumer.assignor_input import describe


def test_what_has_moved_rests_even_if_nobody_may_come_back_for_it() -> None:
    """The dwell time of partitions applies even if the preference for previous owners is off."""
    driver = LoadDriver(settings=slow(assignment_interval_ms=0, previous_owner_ms=0))
    driver.enter("a", assignor="load")
    driver.settle("a")
    driver.enter("b", assignor="load")
    driver.settle("a", "b")
    groups, group = driver.shard.consumer_groups, driver.consumer_group()
    spec = describe(groups, group, None, None, driver.now, is_by_load=True).specification()
    assert len(spec.previous_owners) == 3
    assert returning_owners(spec) == {}
    assert not describe(groups, group, None, None, driver.now).previous_owners


def test_description_stays_what_it_was() -> None:
    """A group description does not change when the group changes, because another thread reads it."""
    driver = LoadDriver(settings=slow(assignment_interval_ms=0))
    driver.enter("a")
    driver.settle("a")
    groups, group = driver.shard.consumer_groups, driver.consumer_group()
    described = describe(groups, group, None, None, driver.now)
    before = described.specification()
    driver.enter("b")
    driver.settle("a", "b")
    assert described.specification() == before
    assert list(before.members) == ["a"]
    assert set(describe(groups, group, None, None, driver.now).specification().members) == {"a", "b"}
