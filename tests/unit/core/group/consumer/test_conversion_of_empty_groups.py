"""Tests of empty groups that change their type with the first member of the other protocol (KIP-848)."""

from __future__ import annotations

from tests.unit.core.group.consumer.consumer_driver import EVENTS, GROUP, ConsumerDriver

from klamm.core.group.classic.group_state import GroupState
from klamm.protocol.errors import ErrorCode

EVENTS_0 = (EVENTS, 0)


def test_empty_classic_group_becomes_a_consumer_group() -> None:
    """An empty classic group becomes a consumer group, and keeps its committed offsets."""
    driver = ConsumerDriver()
    ids = driver.stable_group(size=1)
    driver.commit(5, member_id=ids[0], generation=1)
    driver.leave((ids[0], None))
    assert driver.enter("a").code is ErrorCode.NONE
    assert driver.shard.classic_groups.store.groups == {}
    assert driver.shard.classic_groups.find(GROUP) is None
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 5}
    assert driver.reload().shard.store == driver.shard.store


def test_simple_group_becomes_a_consumer_group() -> None:
    """A simple group, which only has offsets, becomes a consumer group."""
    driver = ConsumerDriver()
    driver.commit(5)
    assert driver.enter("a").epoch == 2
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 5}
    assert driver.reload().shard.store == driver.shard.store


def test_empty_consumer_group_becomes_a_classic_group() -> None:
    """An empty consumer group becomes a classic group by a JoinGroup request without a member id."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.commit(5, member_id="a", generation=2)
    driver.go("a")
    assert driver.join_error(driver.join("stranger")) is ErrorCode.UNKNOWN_MEMBER_ID
    assert GROUP in driver.shard.consumer_groups.store.groups
    ids = driver.stable_group(size=2)
    assert driver.state() is GroupState.STABLE
    assert driver.shard.consumer_groups.store.groups == {}
    assert driver.fetch(EVENTS_0) == {EVENTS_0: 5}
    assert driver.heartbeat(ids[0], 1) is ErrorCode.NONE
    assert driver.reload().shard.store == driver.shard.store


def test_refused_conversion_leaves_the_group_as_it_was() -> None:
    """If the log refuses a conversion in either direction, the group keeps its type."""
    driver = ConsumerDriver()
    driver.enter("a")
    driver.go("a")
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.join()
    assert GROUP in driver.shard.consumer_groups.store.groups
    driver.append_error = None
    driver.stable_group(size=1)
    driver.leave((next(iter(driver.group().members)), None))
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.maybe_beat("a", 0, rebalance_timeout_ms=1, subscribed_topic_names=[EVENTS], topic_partitions=[])
    assert driver.state() is GroupState.EMPTY
    assert driver.shard.consumer_groups.store.groups == {}


def test_members_of_the_other_protocol_are_unknown() -> None:
    """A classic request fails for a member of a consumer group, and a consumer heartbeat fails for a classic group."""
    driver = ConsumerDriver()
    driver.enter("a")
    assert driver.heartbeat("a", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.sync_error(driver.sync("a", 2)) is ErrorCode.UNKNOWN_MEMBER_ID
    classic = ConsumerDriver()
    ids = classic.stable_group(size=1)
    answer = classic.beat(ids[0], 1)
    assert (answer.code, answer.message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Group {GROUP} is not a consumer group.",
    )
