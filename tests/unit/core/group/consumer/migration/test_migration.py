"""Tests of online migration: groups that change the protocol while they have members of both (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.core.group.consumer.consumer_driver import EVENTS, GROUP, ConsumerDriver, name_of, owned
from tests.unit.core.group.consumer.migration.classic_requests import (
    assignment,
    classic_pair,
    joined,
    protocols,
    synced,
)
from tests.unit.core.group.painted_topics import topic_id
from tests.unit.core.group.shard_driver import small_sessions

from klamm.core.coordinator.shard_contract import TimerKey
from klamm.core.group.classic.group_state import GroupState
from klamm.core.group.consumer.group_state import ConsumerGroupState, MemberState
from klamm.core.group.consumer.timers import join_timer, session_timer, sync_timer
from klamm.core.group.events import Cause, RebalanceNeeded
from klamm.protocol.consumer_protocol import decode_assignment
from klamm.protocol.errors import ErrorCode

SESSION_MS = 10_000
REBALANCE_MS = 60_000


def mixed() -> tuple[ConsumerDriver, str, str]:
    """Creates a group that was just upgraded; returns the driver and the ids of its two classic members."""
    driver = ConsumerDriver()
    one, other = classic_pair(driver)
    assert driver.enter("new").code is ErrorCode.NONE
    return driver, one, other


# Upgrade


def test_first_member_of_the_consumer_protocol_upgrades_the_group() -> None:
    """The upgrade turns the generation into the epoch, and classic members keep their assignments until they rejoin."""
    driver, one, other = mixed()
    group = driver.consumer_group()
    assert (group.epoch, group.target_epoch) == (2, 2)
    assert driver.shard.classic_groups.store.groups == {}
    assert driver.member(one).member_epoch == 1
    assert driver.assigned(one) == {EVENTS: [0, 1, 2]}
    assert driver.assigned(other) == {EVENTS: [3, 4, 5]}
    assert driver.assigned("new") == {}
    assert driver.consumer_state() is ConsumerGroupState.RECONCILING
    assert [member.member_type for member in driver.described().members] == [0, 0, 1]
    assert driver.reload().shard.store == driver.shard.store
    assert Cause.PROTOCOL_CHANGED in [event.cause for event in driver.happened(RebalanceNeeded)]


def test_members_of_both_protocols_share() -> None:
    """Classic members in a consumer group rejoin, revoke partitions, join again, and get their share by SyncGroup."""
    driver, one, other = mixed()
    for member_id, had in ((one, (0, 1, 2)), (other, (3, 4, 5))):
        assert driver.heartbeat(member_id, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        first = joined(driver, member_id, *had)
        assert (first.error_code, first.leader, first.members, first.protocol_name) == (0, "", [], "range")
        kept = synced(driver, member_id, first.generation_id)[EVENTS]
        assert len(kept) == 2
        if driver.member(member_id).state is MemberState.UNREVOKED_PARTITIONS:
            assert driver.heartbeat(member_id, first.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
            second = joined(driver, member_id, *kept)
            assert second.generation_id == 2
            assert synced(driver, member_id, 2)[EVENTS] == kept
        assert driver.heartbeat(member_id, 2) is ErrorCode.NONE
    assert driver.beat("new", 2).assigned is not None
    assert driver.consumer_state() is ConsumerGroupState.STABLE
    assert driver.reload().shard.store == driver.shard.store


def test_eager_member_gives_up_everything_first() -> None:
    """A classic member that reports no owned partitions gets its whole target assignment at once."""
    driver, one, _ = mixed()
    answer = joined(driver, one)
    assert answer.generation_id == 2
    assert len(synced(driver, one, 2)[EVENTS]) == 2


def test_requests_that_wait_are_sent_back() -> None:
    """An upgrade during a rebalance fails the waiting JoinGroup requests, so that the members join the new group."""
    driver = ConsumerDriver()
    one, other = classic_pair(driver)
    waiting = driver.join(one, protocols=protocols(names=[EVENTS, "audit"]))
    assert driver.is_parked(waiting)
    driver.enter("new")
    assert driver.join_error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert joined(driver, one, 0, 1, 2).error_code == ErrorCode.NONE
    assert driver.heartbeat(other, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_requests_that_wait_are_sent_back_even_if_nothing_comes_of_it() -> None:
    """If the new member is refused, the group stays classic and keeps its members, but waiting requests fail."""
    driver = ConsumerDriver()
    one, other = classic_pair(driver)
    waiting = driver.join(one, protocols=protocols(names=[EVENTS, "audit"]))
    assert driver.enter("new", regex="(").code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert driver.join_error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.state() is GroupState.PREPARING_REBALANCE
    tickets = [driver.join(each, protocols=protocols()) for each in (one, other)]
    assert [driver.joined(ticket).generation_id for ticket in tickets] == [2, 2]


def test_first_rebalance_of_a_group_may_be_overtaken() -> None:
    """A group can be upgraded during its first rebalance, when the members have no protocol and no partitions yet."""
    driver = ConsumerDriver()
    member_id = driver.member_id(protocols=protocols())
    waiting = driver.join(member_id, protocols=protocols())
    driver.enter("new")
    assert driver.join_error(waiting) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.consumer_group().members.keys() == {member_id, "new"}


def test_partitions_that_do_not_exist_are_left_behind() -> None:
    """The upgrade drops partitions that do not exist: the leader may have seen a topic before a deletion, or a topic
    that the broker does not know yet.
    """
    driver = ConsumerDriver()
    member_id = driver.member_id(protocols=protocols())
    ticket = driver.join(member_id, protocols=protocols())
    driver.advance(driver.config.initial_rebalance_delay_ms * 2)
    driver.sync(member_id, driver.joined(ticket).generation_id, {member_id: assignment(0, 6, 7)})
    assert driver.enter("new").code is ErrorCode.NONE
    assert driver.assigned(member_id) == {EVENTS: [0]}


@pytest.mark.parametrize(
    ("policy", "is_allowed"), [("bidirectional", True), ("upgrade", True), ("downgrade", False), ("disabled", False)]
)
def test_policy_may_forbid_the_upgrade(policy: str, is_allowed: bool) -> None:
    """The setting `group.consumer.migration.policy` allows or forbids the upgrade."""
    driver = ConsumerDriver(small_sessions(consumer_migration_policy=policy))
    classic_pair(driver)
    answer = driver.enter("new")
    if is_allowed:
        assert answer.code is ErrorCode.NONE
    else:
        assert answer.code is ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.message == (
            f"Cannot upgrade classic group {GROUP} to consumer group because online upgrade is disabled."
        )
        assert driver.state() is GroupState.STABLE


def test_group_that_would_lose_something_is_not_upgraded() -> None:
    """A group of another protocol type, with data of an assignor, bad metadata or too many members stays classic."""
    driver = ConsumerDriver()
    driver.stable_group(protocol_type="connect", protocols=(("v1", b""),))
    assert "does not use the consumer embedded protocol" in (driver.enter("new").message or "")
    driver = ConsumerDriver()
    ids = classic_pair(driver)
    driver.join(ids[0], protocols=protocols())
    driver.join(ids[1], protocols=protocols())
    driver.sync(ids[0], 2, {ids[0]: assignment(0, user_data=b"mine"), ids[1]: assignment(1)})
    answer = driver.enter("new")
    assert (answer.code, "custom assignor is in use" in (answer.message or "")) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        True,
    )
    driver = ConsumerDriver()
    driver.stable_group()
    assert "the embedded consumer protocol is malformed." in (driver.enter("new").message or "")
    driver = ConsumerDriver(small_sessions(consumer_max_size=1))
    classic_pair(driver)
    assert "exceeds the consumer group maximum size" in (driver.enter("new").message or "")
    assert driver.state() is GroupState.STABLE


def test_refused_upgrade_leaves_a_classic_group() -> None:
    """If the log refuses the upgrade, the group stays classic and its members continue."""
    driver = ConsumerDriver()
    ids = classic_pair(driver)
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.maybe_beat("new", 0, rebalance_timeout_ms=1, subscribed_topic_names=[EVENTS], topic_partitions=[])
    driver.append_error = None
    assert driver.state() is GroupState.STABLE
    assert driver.heartbeat(ids[0], 1) is ErrorCode.NONE
    driver.advance(SESSION_MS)
    assert driver.shard.consumer_groups.store.groups == {}


# Members of the classic protocol in a consumer group


def test_their_sessions_are_their_own() -> None:
    """Each classic member keeps the session timeout of its JoinGroup request, also after a restart."""
    driver, one, other = mixed()
    driver.advance(SESSION_MS - 1)
    driver.heartbeat(one, 1)
    driver.advance(1)
    assert driver.consumer_group().members.keys() == {one, "new"}
    again = driver.reload()
    again.advance(SESSION_MS)
    assert again.consumer_group().members.keys() == {"new"}
    assert other not in driver.consumer_group().members


def test_member_that_does_not_join_again_in_time_is_removed() -> None:
    """The time limit to join again starts with the first REBALANCE_IN_PROGRESS answer; later ones do not extend it."""
    driver = ConsumerDriver()
    one, other = classic_pair(driver, rebalance_timeout_ms=20_000)
    driver.enter("new")
    for _ in range(4):
        assert driver.heartbeat(one, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        driver.heartbeat(other, 1)
        driver.advance(4999)
    assert one in driver.consumer_group().members
    driver.advance(4)
    assert driver.consumer_group().members.keys() == {"new"}


def test_member_that_does_not_ask_for_its_assignment_in_time_is_removed() -> None:
    """A classic member that joins and sends no SyncGroup request within its rebalance timeout is removed."""
    driver = ConsumerDriver()
    one, _ = classic_pair(driver, rebalance_timeout_ms=15_000)
    driver.enter("new")
    joined(driver, one, rebalance_timeout_ms=15_000)
    driver.advance(9000)
    assert driver.heartbeat(one, 2) is ErrorCode.NONE
    driver.advance(6000)
    assert one not in driver.consumer_group().members


def test_member_that_asked_in_time_stays() -> None:
    """SyncGroup ends the time limit for the classic member, so the member stays."""
    driver = ConsumerDriver()
    one, _ = classic_pair(driver, rebalance_timeout_ms=15_000)
    driver.enter("new")
    joined(driver, one, rebalance_timeout_ms=15_000)
    synced(driver, one, 2)
    for _ in range(3):
        driver.advance(9000)
        driver.beat("new", driver.member("new").member_epoch)
        assert driver.heartbeat(one, 2) in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)


def test_join_that_could_not_be_written_is_waited_for_again() -> None:
    """A JoinGroup request that the log refuses does not count: the member is removed if it does not join in time."""
    driver = ConsumerDriver()
    one, other = classic_pair(driver, rebalance_timeout_ms=15_000)
    driver.enter("new")
    driver.heartbeat(one, 1)
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.join(one, protocols=protocols(), rebalance_timeout_ms=15_000)
    driver.append_error = None
    assert driver.member(one).member_epoch == 1
    driver.advance(9000)
    assert driver.heartbeat(one, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.heartbeat(other, 1)
    driver.advance(6000)
    assert one not in driver.consumer_group().members
    assert other in driver.consumer_group().members


@pytest.mark.parametrize("leaves", ["the late one", "the last of the other protocol"])
def test_time_to_ask_for_the_assignment_ends_though_a_removal_was_refused(leaves: str) -> None:
    """A removal or a downgrade cancels the timers; if the log refuses it, the sync timer is restored."""
    driver = ConsumerDriver()
    one, other = classic_pair(driver, rebalance_timeout_ms=15_000)
    driver.enter("new")
    driver.heartbeat(one, 1)
    joined(driver, one, rebalance_timeout_ms=15_000)
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    if leaves == "the late one":
        driver.leave((one, None))
    else:
        driver.maybe_beat("new", -1)
    driver.append_error = None
    assert driver.consumer_group().members.keys() == {one, other, "new"}
    for _ in range(3):
        driver.advance(5000)
        driver.heartbeat(one, 2)
        driver.heartbeat(other, 1)
        driver.obey("new")
    assert one not in driver.consumer_group().members
    assert driver.shard.consumer_groups.awaiting_sync == set()


def test_join_that_was_refused_leaves_the_earlier_one_to_be_followed_by_a_sync() -> None:
    """If the log refuses a second JoinGroup request, the time limit for SyncGroup of the first one starts again."""
    driver = ConsumerDriver()
    one, other = classic_pair(driver, rebalance_timeout_ms=15_000)
    driver.enter("new")
    joined(driver, one, rebalance_timeout_ms=15_000)
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.join(one, protocols=protocols(names=[EVENTS, "audit"]), rebalance_timeout_ms=15_000)
    driver.append_error = None
    for _ in range(3):
        driver.advance(5000)
        driver.heartbeat(one, 2)
        driver.heartbeat(other, 1)
        driver.obey("new")
    assert one not in driver.consumer_group().members


def test_static_members_of_the_classic_protocol_are_known_by_their_instance_id() -> None:
    """A static classic member in a mixed group is known by its instance id; its former member is fenced."""
    driver, _, _ = mixed()
    first = driver.joined(driver.join(instance="pod", protocols=protocols()))
    assert first.error_code == ErrorCode.NONE
    again = driver.joined(driver.join(first.member_id, instance="pod", protocols=protocols()))
    assert (again.error_code, again.member_id) == (ErrorCode.NONE, first.member_id)
    second = driver.joined(driver.join(instance="pod", protocols=protocols()))
    assert second.member_id != first.member_id
    fenced = driver.join(first.member_id, instance="pod", protocols=protocols())
    assert driver.answers[fenced] is ErrorCode.FENCED_INSTANCE_ID
    unknown = driver.join("ghost", instance="nobody", protocols=protocols())
    assert driver.answers[unknown] is ErrorCode.UNKNOWN_MEMBER_ID


def test_requests_that_do_not_fit_are_refused() -> None:
    """Classic requests fail for unknown members, wrong generations, other protocols, and consumer protocol members."""
    driver, one, _ = mixed()
    assert driver.heartbeat("ghost", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.heartbeat(one, 2) is ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat("new", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.sync_error(driver.sync("ghost", 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert driver.sync_error(driver.sync(one, 7)) is ErrorCode.ILLEGAL_GENERATION
    assert driver.sync_error(driver.sync(one, 1)) is ErrorCode.REBALANCE_IN_PROGRESS
    other_name = driver.sync(one, 1, protocol_type="consumer", protocol_name="sticky")
    assert driver.sync_error(other_name) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    other_type = driver.sync(one, 1, protocol_type="connect")
    assert driver.sync_error(other_type) is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    strangers = driver.join(one, protocols=[("other", b"")])
    assert driver.answers[strangers] is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    unreadable = driver.join(one, protocols=[("range", b"\x00")])
    assert driver.answers[unreadable] is ErrorCode.UNKNOWN_SERVER_ERROR


def test_new_member_may_come_with_the_classic_protocol() -> None:
    """From version 4 on, a new classic member in a consumer group first gets a member id, which is a bare UUID."""
    driver, _, _ = mixed()
    named = driver.joined(driver.join(protocols=protocols()))
    assert (named.error_code, named.member_id[:5]) == (ErrorCode.MEMBER_ID_REQUIRED, "uuid-")
    assert named.member_id not in driver.consumer_group().members
    answer = joined(driver, named.member_id)
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 3)
    old = driver.joined(driver.join(protocols=protocols(), version=3))
    assert (old.error_code, old.member_id in driver.consumer_group().members) == (ErrorCode.NONE, True)


def test_commits_of_both_protocols_are_held_to_their_epochs() -> None:
    """Commits with a wrong epoch are refused, with the error code of the member's protocol (I16)."""
    driver, one, _ = mixed()
    topic_id = next(iter(driver.member(one).assigned))
    assert name_of(topic_id) == EVENTS
    assert driver.commit(1, member_id=one, generation=1, topic_id=topic_id, version=8) is ErrorCode.NONE
    assert driver.commit(1, member_id=one, generation=2, topic_id=topic_id) is ErrorCode.ILLEGAL_GENERATION
    assert driver.commit(1, member_id="new", generation=1, topic_id=topic_id) is ErrorCode.STALE_MEMBER_EPOCH


def test_member_may_change_its_protocol() -> None:
    """A static member that restarts with the other protocol takes over its own assignment."""
    driver = ConsumerDriver()
    tickets = [driver.join(instance=each, protocols=protocols()) for each in ("pod-1", "pod-2")]
    driver.advance(6000)
    one, other = (driver.joined(ticket).member_id for ticket in tickets)
    driver.sync(one, 1, {one: assignment(0, 1, 2), other: assignment(3, 4, 5)}, instance="pod-1")
    taken = driver.enter("new-1", instance="pod-1")
    assert (taken.code, taken.assigned) == (ErrorCode.NONE, {EVENTS: [0, 1, 2]})
    assert driver.consumer_group().members.keys() == {"new-1", other}
    assert driver.heartbeat(one, 1, instance="pod-1") is ErrorCode.FENCED_INSTANCE_ID
    assert driver.enter("new-2", instance="pod-2").assigned == {EVENTS: [3, 4, 5]}
    assert driver.consumer_group().classic_size == 0
    assert driver.consumer_state() is ConsumerGroupState.STABLE
    assert driver.reload().shard.store == driver.shard.store


# Leaving and downgrade


def test_members_of_either_protocol_may_be_sent_away() -> None:
    """LeaveGroup removes members of both protocols, with an error code for each member."""
    driver, one, other = mixed()
    driver.enter("static", instance="pod")
    codes = driver.leave((one, None), ("ghost", None), ("", "pod"), ("", "nobody"), ("wrong", "pod"))
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert driver.consumer_group().members.keys() == {other, "new"}


def test_last_member_of_the_consumer_protocol_takes_the_group_back() -> None:
    """When the last consumer protocol member leaves, the group turns classic with its epoch, and members rejoin."""
    driver, one, other = mixed()
    assert driver.go("new").epoch == -1
    assert driver.shard.consumer_groups.store.groups == {}
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert driver.group().generation == 2
    assert driver.group().protocol_name == "range"
    assert decode_assignment(driver.group().members[one].assignment).assigned_partitions[0].topic == EVENTS
    assert driver.heartbeat(one, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    tickets = [driver.join(each, protocols=protocols()) for each in (one, other)]
    assert [driver.joined(ticket).generation_id for ticket in tickets] == [3, 3]
    driver.sync(one, 3, {one: assignment(0, 1, 2), other: assignment(3, 4, 5)})
    again = driver.reload()
    assert again.shard.store == driver.shard.store
    assert again.state() is GroupState.STABLE


def test_group_that_was_taken_back_shares_again_with_the_next_coordinator() -> None:
    """After a downgrade the next coordinator continues the rebalance, to assign the former member's partitions."""
    driver, one, other = mixed()
    driver.go("new")
    again = driver.reload()
    assert again.shard.store == driver.shard.store
    assert again.state() is GroupState.PREPARING_REBALANCE
    assert again.heartbeat(one, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    tickets = [again.join(each, protocols=protocols()) for each in (one, other)]
    assert [again.joined(ticket).generation_id for ticket in tickets] == [3, 3]


def test_silence_of_the_last_one_has_the_same_effect() -> None:
    """The group is downgraded when the session of the last member of the consumer protocol ends."""
    driver, one, other = mixed()
    for _ in range(9):
        driver.advance(5000)
        for member_id in (one, other):
            if driver.shard.consumer_groups.store.groups:
                driver.heartbeat(member_id, driver.member(member_id).member_epoch)
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert driver.group().members.keys() == {one, other}


def test_static_member_that_comes_back_with_the_classic_protocol_takes_the_group_back() -> None:
    """The only static member, returning with the classic protocol, downgrades the group and keeps its partitions."""
    driver = ConsumerDriver()
    driver.enter("a", instance="pod")
    answer = driver.joined(driver.join(instance="pod", protocols=protocols()))
    assert (answer.error_code, answer.generation_id) == (ErrorCode.NONE, 2)
    assert driver.state() is GroupState.STABLE
    assert driver.group().members.keys() == {answer.member_id}
    assert synced(driver, answer.member_id, 2) == {EVENTS: [0, 1, 2, 3, 4, 5]}
    assert driver.reload().shard.store == driver.shard.store
    assert driver.heartbeat(answer.member_id, 2, instance="pod") is ErrorCode.NONE


def test_static_member_that_comes_back_with_another_subscription_rebalances() -> None:
    """A static member that returns with the classic protocol and another subscription starts a rebalance."""
    driver = ConsumerDriver()
    driver.enter("a", instance="pod")
    driver.joined(driver.join(instance="pod", protocols=protocols(names=["audit"])))
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert driver.reload().shard.store == driver.shard.store


def test_group_that_is_taken_back_on_its_way_rebalances() -> None:
    """A group that is downgraded during reconciliation rebalances, so that waiting members get their partitions."""
    driver = ConsumerDriver()
    driver.enter("a", instance="pod")
    named = driver.joined(driver.join(protocols=protocols())).member_id
    waiting = joined(driver, named)
    assert synced(driver, named, waiting.generation_id) == {}
    driver.joined(driver.join(instance="pod", protocols=protocols()))
    assert driver.state() is GroupState.PREPARING_REBALANCE
    assert driver.heartbeat(named, waiting.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    assert driver.reload().shard.store == driver.shard.store


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_policy_may_forbid_the_downgrade(policy: str) -> None:
    """If the policy forbids the downgrade, the group stays a consumer group of classic members."""
    driver, one, other = mixed()
    strict = ConsumerDriver(small_sessions(consumer_migration_policy=policy), log=driver.log, now=driver.now)
    strict.go("new")
    assert strict.consumer_group().members.keys() == {one, other}
    assert strict.consumer_group().epoch == 3


def test_group_that_is_too_large_for_a_classic_one_stays() -> None:
    """A group with more members than `group.max.size` is not downgraded."""
    driver, one, other = mixed()
    strict = ConsumerDriver(small_sessions(max_size=1), log=driver.log, now=driver.now)
    strict.go("new")
    assert strict.consumer_group().members.keys() == {one, other}


def test_refused_downgrade_leaves_a_consumer_group() -> None:
    """If the log refuses the downgrade, the group keeps all members and their session timers."""
    driver, one, other = mixed()
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.maybe_beat("new", -1)
    driver.append_error = None
    assert driver.consumer_group().members.keys() == {one, other, "new"}
    assert driver.beat("new", 2, topic_partitions=owned()).code is ErrorCode.NONE
    driver.advance(SESSION_MS)
    assert driver.consumer_group().members.keys() == {"new"}


def test_who_was_told_to_join_again_is_told_anew_after_a_detour() -> None:
    """After a downgrade and another upgrade, the time limit to join again starts from the beginning."""
    driver, one, _ = mixed()
    assert driver.heartbeat(one, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.go("new")
    assert driver.shard.consumer_groups.awaiting_join == set()
    assert driver.enter("newer").code is ErrorCode.NONE
    assert driver.heartbeat(one, driver.member(one).member_epoch) is ErrorCode.REBALANCE_IN_PROGRESS
    assert join_timer(GROUP, one) in driver.timers


def test_time_to_join_again_of_before_a_detour_is_over() -> None:
    """A downgrade cancels the time limit to join again, because the classic rebalance replaces it. Kafka keeps that
    timer, which then removes a member that was not told to join again.
    """
    driver = ConsumerDriver()
    one, other = classic_pair(driver, rebalance_timeout_ms=8_000)
    assert driver.enter("new").code is ErrorCode.NONE
    assert driver.heartbeat(one, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.advance(6_000)
    driver.go("new")
    assert driver.enter("newer").code is ErrorCode.NONE
    driver.advance(3_000)
    assert driver.consumer_group().members.keys() == {one, other, "newer"}


def test_time_to_join_again_runs_on_if_the_group_cannot_turn_classic() -> None:
    """The time limit to join again continues if the log refuses the downgrade, so the group does not wait forever."""
    driver, one, _ = mixed()
    assert driver.heartbeat(one, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.maybe_beat("new", -1)
    driver.append_error = None
    assert join_timer(GROUP, one) in driver.timers


@pytest.mark.parametrize("timer", [join_timer, sync_timer])
def test_member_that_is_late_goes_when_the_log_writes_again(timer: Callable[[str, str], TimerKey]) -> None:
    """A removal by the join or sync timer that the log refuses is retried, even if the member sends heartbeats."""
    driver, one, _ = mixed()
    assert driver.heartbeat(one, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    if timer is sync_timer:
        joined(driver, one)
    epoch = driver.member(one).member_epoch
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.timers.pop(timer(GROUP, one))
    driver.apply(driver.shard.handle_timer(timer(GROUP, one), driver.now))
    assert driver.consumer_group().members.keys() >= {one}
    driver.append_error = None
    driver.heartbeat(one, epoch)
    driver.advance(1_000)
    assert one not in driver.consumer_group().members


def test_member_that_came_over_and_commits_is_not_held_back_for_others_of_its_name() -> None:
    """A classic member that commits is not held back for crashes of its client id; one without a commit is."""
    driver, one, other = mixed()
    driver.enter("steady", client_id="steady")
    epoch = driver.member(one).member_epoch
    assert driver.commit(1, member_id=one, generation=epoch, topic_id=topic_id(EVENTS)) is ErrorCode.NONE
    for number in range(3):
        twin = f"looping-{number}"
        driver.enter(twin)
        driver.apply(driver.shard.handle_timer(session_timer(GROUP, twin), driver.now))
    members = driver.consumer_group().members
    assert members.keys() == {one, other, "new", "steady"}
    held_back = driver.shard.consumer_groups.lifetimes.held_back(GROUP, members.values(), driver.now)
    assert held_back.keys() == {other, "new"}


def test_nothing_is_left_of_a_group_that_has_turned_classic() -> None:
    """A downgrade removes all in-memory state of the consumer group, also that of the member that caused it."""
    driver = ConsumerDriver()
    driver.enter("a", instance="pod")
    driver.joined(driver.join(instance="pod", protocols=protocols()))
    groups = driver.shard.consumer_groups
    assert driver.state() is GroupState.STABLE
    assert (groups.lifetimes._lifetimes, groups.lifetimes._loops, groups.previous_owners) == ({}, {}, {})
    assert (groups.outdated, groups.assigning, groups.awaiting_join) == ({}, {}, set())
