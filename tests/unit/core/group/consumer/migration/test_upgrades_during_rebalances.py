"""Tests of upgrades to a consumer group while the classic group rebalances."""

from __future__ import annotations

import pytest
from tests.unit.core.group.consumer.consumer_driver import EVENTS, ConsumerDriver
from tests.unit.core.group.consumer.migration.classic_requests import assignment, classic_pair, joined, protocols

from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.consumer.group_state import MemberState
from klamm.core.group.coordinator_config import GroupCoordinatorConfig
from klamm.core.group.events import GroupIsStable, GroupType, TargetChosen
from klamm.protocol.errors import ErrorCode


def test_members_keep_their_partitions_though_a_rebalance_began_again() -> None:
    """Cooperative members read on while a rebalance begins again: an upgrade gives no other member their partitions."""
    driver = ConsumerDriver()
    one, other = classic_pair(driver)
    third = driver.member_id(protocols=protocols())
    joins = [driver.join(third, protocols=protocols()), driver.join(one, protocols=protocols(0, 1, 2))]
    joins.append(driver.join(other, protocols=protocols(3, 4, 5)))
    assert [driver.joined(ticket).generation_id for ticket in joins] == [2, 2, 2]
    assert driver.leave((third, None)) == [ErrorCode.NONE]
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert driver.enter("new").assigned == {}
    assert driver.assigned(one) == {EVENTS: [0, 1, 2]}
    assert driver.assigned(other) == {EVENTS: [3, 4, 5]}
    assert driver.reload().shard.store == driver.shard.store


def test_partitions_that_are_being_revoked_have_an_owner_until_then() -> None:
    """A cooperative member that must revoke partitions has them until it joins again, also if the group is upgraded."""
    driver = ConsumerDriver()
    one = driver.member_id(protocols=protocols())
    first = driver.join(one, protocols=protocols())
    driver.advance(driver.config.initial_rebalance_delay_ms * 2)
    assert driver.joined(first).generation_id == 1
    driver.sync(one, 1, {one: assignment(0, 1, 2, 3, 4, 5)})
    other = driver.member_id(protocols=protocols())
    joins = [driver.join(other, protocols=protocols()), driver.join(one, protocols=protocols(0, 1, 2, 3, 4, 5))]
    assert [driver.joined(ticket).generation_id for ticket in joins] == [2, 2]
    driver.sync(one, 2, {one: assignment(0, 1, 2), other: assignment()})
    driver.sync(other, 2)
    assert driver.state() is GroupState.STABLE
    driver = driver.reload()
    assert driver.enter("new").assigned == {}
    assert driver.member(one).state is MemberState.UNREVOKED_PARTITIONS
    assert driver.assigned(one) == {EVENTS: [0, 1, 2]}
    assert [driver.owner(index) for index in range(6)] == [one] * 6
    assert driver.heartbeat(one, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(driver, one, 0, 1, 2).error_code == ErrorCode.NONE
    assert [driver.owner(index) for index in range(6)] == [one] * 3 + [None] * 3
    assigned = driver.beat("new", 3).assigned
    assert assigned is not None
    assert assigned[EVENTS]
    assert driver.reload().shard.store == driver.shard.store


@pytest.mark.parametrize("is_committed", [True, False])
def test_assignment_that_the_upgrade_overtook_is_not_told(is_committed: bool) -> None:
    """A leader's assignment whose record is committed after the upgrade of the group has no effect and no event."""
    driver = ConsumerDriver()
    member_id = driver.member_id(protocols=protocols())
    waiting = driver.join(member_id, protocols=protocols())
    driver.advance(driver.config.initial_rebalance_delay_ms * 2)
    assert driver.joined(waiting).generation_id == 1
    driver.hold_commits = True
    sync = driver.sync(member_id, 1, {member_id: assignment(0, 1, 2)})
    beat = driver.maybe_beat(
        "new", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=[EVENTS], topic_partitions=[]
    )
    assert beat is None
    timers = dict(driver.timers)
    if is_committed:
        driver.commit_held()
        assert driver.sync_error(sync) is ErrorCode.REBALANCE_IN_PROGRESS
    else:
        driver.fail_held(ErrorCode.REQUEST_TIMED_OUT)
        assert driver.answers[sync] is ErrorCode.REQUEST_TIMED_OUT
    assert GroupType.CLASSIC not in [event.group_type for event in driver.happened(TargetChosen)]
    assert driver.happened(GroupIsStable) == []
    assert driver.timers == timers


def test_member_that_has_changed_its_assignor_is_upgraded() -> None:
    """A member may join again with other assignors than that of the present generation: the group is upgraded."""
    driver = ConsumerDriver()
    both = [*protocols(), *protocols(protocol="sticky")]
    ids = [driver.member_id(protocols=both) for _ in range(2)]
    tickets = [driver.join(member_id, protocols=both) for member_id in ids]
    driver.advance(driver.config.initial_rebalance_delay_ms * 2)
    assert {driver.joined(ticket).protocol_name for ticket in tickets} == {"range"}
    driver.sync(ids[0], 1, {ids[0]: assignment(0, 1, 2), ids[1]: assignment(3, 4, 5)})
    waiting = driver.join(ids[1], protocols=protocols(protocol="sticky"))
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert driver.enter("new").code is ErrorCode.NONE
    assert driver.joined(waiting).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.member(ids[1]).subscribed_topic_names == {EVENTS}
    assert driver.reload().shard.store == driver.shard.store


def test_refused_upgrades_keep_no_dead_member_alive() -> None:
    """The session of a classic member ends though a client is refused again and again that would upgrade the group."""
    driver = ConsumerDriver(GroupCoordinatorConfig(consumer_max_size=2))
    dead, alive = classic_pair(driver, session_timeout_ms=10_000)
    for _ in range(3):
        driver.advance(3_000)
        driver.heartbeat(alive, 1)
        assert driver.enter("new").code is ErrorCode.GROUP_MAX_SIZE_REACHED
    driver.advance(3_000)
    assert dead not in driver.group().members
    assert driver.state() is GroupState.PREPARING_REBALANCE


def test_new_member_waits_on_after_a_refused_upgrade() -> None:
    """A new member that joins again after a refused upgrade may wait for the others longer than its session lasts."""
    driver = ConsumerDriver()
    ids = classic_pair(driver)
    new = driver.member_id(protocols=protocols())
    refused = driver.join(new, protocols=protocols(), session_timeout_ms=10_000)
    assert driver.enter("consumer", regex="(").code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert driver.join_error(refused) is ErrorCode.REBALANCE_IN_PROGRESS
    waiting = driver.join(new, protocols=protocols(), session_timeout_ms=10_000)
    for _ in range(4):
        driver.advance(5_000)
        assert [driver.heartbeat(each, 1) for each in ids] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    tickets = [driver.join(each, protocols=protocols()) for each in ids]
    assert [driver.joined(ticket).generation_id for ticket in (*tickets, waiting)] == [2, 2, 2]
