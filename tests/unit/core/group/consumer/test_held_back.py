"""Tests of members in a crash loop, which are held back so that they do not disturb the group with each join."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import pytest
from tests.unit.core.group.consumer.consumer_driver import GROUP, ConsumerDriver, slow
from tests.unit.core.group.consumer.test_load_trigger import LoadDriver
from tests.unit.core.group.painted_topics import topic_id
from tests.unit.core.group.transactions import commit_in_transaction

from klamm.core.group.consumer.timers import BACK_OFF, back_off_timer
from klamm.core.group.events import Cause, MemberRemoved, RebalanceNeeded
from klamm.protocol.errors import ErrorCode

Commit: TypeAlias = Callable[[ConsumerDriver, str], ErrorCode | None]

SESSION_MS = 45_000
SETTINGS = slow(assignment_interval_ms=0)


def driver_with_steady() -> LoadDriver:
    """Creates a group with one member that stays."""
    driver = LoadDriver(settings=SETTINGS)
    driver.enter("steady", client_id="steady")
    driver.settle("steady")
    return driver


def wait(driver: ConsumerDriver, milliseconds: int) -> None:
    """Advances the clock while the steady member sends heartbeats."""
    for _ in range(milliseconds // 5_000):
        driver.advance(5_000)
        driver.settle("steady", rounds=2)


def commit_plainly(driver: ConsumerDriver, name: str) -> ErrorCode | None:
    """Commits an offset outside of a transaction."""
    epoch = driver.member(name).member_epoch
    return driver.commit(1, member_id=name, generation=epoch, topic_id=topic_id("events"))


def commit_exactly_once(driver: ConsumerDriver, name: str) -> ErrorCode | None:
    """Commits an offset in a transaction."""
    return commit_in_transaction(driver, name, driver.member(name).member_epoch)


def crash(driver: ConsumerDriver, number: int, commit: Commit | None = None) -> None:
    """Lets a member join, get its assignment, possibly commit, and then be removed at the end of its session."""
    name = f"looping-{number}"
    driver.enter(name, client_id="looping")
    driver.settle("steady", name)
    if commit is not None:
        assert commit(driver, name) is ErrorCode.NONE
    wait(driver, SESSION_MS + 5_000)
    assert name not in driver.consumer_group().members


def test_the_fourth_time_it_joins_with_nothing_and_the_others_keep_theirs() -> None:
    """The third death without a commit is marked as a crash loop, and the next incarnation joins without partitions."""
    driver = driver_with_steady()
    for number in range(3):
        crash(driver, number)
    deaths = [event for event in driver.happened(RebalanceNeeded) if event.cause is Cause.SESSION_TIMED_OUT]
    assert [event.crash_loop for event in deaths] == [False, False, True]
    assert "3 deaths without a commit" in driver.happened(MemberRemoved)[-1].detail
    before = driver.assigned("steady")
    driver.enter("looping-3", client_id="looping")
    driver.settle("steady", "looping-3")
    assert driver.assigned("looping-3") == {}
    assert driver.assigned("steady") == before
    assert driver.consumer_group().unreconciled == 0


def test_when_it_has_waited_it_gets_its_share() -> None:
    """A member that is held back gets its share when the back-off ends, without any other event."""
    driver = driver_with_steady()
    for number in range(3):
        crash(driver, number)
    driver.enter("looping-3", client_id="looping")
    driver.settle("steady", "looping-3")
    for _ in range(4):
        driver.advance(5_000)
        driver.settle("steady", "looping-3", rounds=2)
    assert len(driver.assigned("looping-3")["events"]) == 3
    assert driver.happened(RebalanceNeeded)[-1].cause is Cause.MEMBER_HELD_BACK


@pytest.mark.parametrize("commit", [commit_plainly, commit_exactly_once])
def test_one_that_commits_before_it_dies_is_no_loop(commit: Commit) -> None:
    """A member that commits before each death is not in a crash loop."""
    driver = driver_with_steady()
    for number in range(4):
        crash(driver, number, commit)
    driver.enter("looping-4", client_id="looping")
    driver.settle("steady", "looping-4")
    assert len(driver.assigned("looping-4")["events"]) == 3


def test_commit_in_a_transaction_that_names_no_member_is_nobodys() -> None:
    """A transactional commit without a member id, or one that the log refuses, does not end a crash loop."""
    driver = driver_with_steady()

    def commit(driver: ConsumerDriver, name: str) -> ErrorCode | None:
        driver.append_error = ErrorCode.INVALID_PRODUCER_EPOCH
        assert commit_exactly_once(driver, name) is ErrorCode.INVALID_PRODUCER_EPOCH
        driver.append_error = None
        return commit_in_transaction(driver, "", -1)

    for number in range(3):
        crash(driver, number, commit)
    assert driver.happened(RebalanceNeeded)[-1].crash_loop


def test_another_coordinator_lets_it_go_on_too() -> None:
    """A new coordinator knows no deaths, but the target leaves the member out, so the shortest back-off applies."""
    driver = driver_with_steady()
    for number in range(5):
        crash(driver, number)
    driver.enter("looping-5", client_id="looping")
    driver.settle("steady", "looping-5")
    again = driver.reload()
    again.settle("steady", "looping-5")
    assert again.assigned("looping-5") == {}
    epoch = again.consumer_group().epoch
    for _ in range(2):
        again.advance(5_000)
        again.settle("steady", "looping-5", rounds=2)
    assert len(again.assigned("looping-5")["events"]) == 3
    assert again.happened(RebalanceNeeded)[-1].cause is Cause.MEMBER_HELD_BACK
    assert again.consumer_group().epoch == epoch + 1
    assert again.reload().timers.keys().isdisjoint({back_off_timer(GROUP, "looping-5")})


def test_another_coordinator_does_not_wait_for_who_has_nothing_by_right() -> None:
    """A new coordinator starts no back-off for a member that has no subscription or for which no partition is left."""
    driver = LoadDriver(settings=SETTINGS)
    names = [f"m{number}" for number in range(8)]
    for name in names:
        driver.enter(name, client_id=name)
    driver.enter("idle", names=[], client_id="idle")
    driver.settle()
    assert [driver.assigned(name) for name in names].count({}) == 2
    again = driver.reload()
    again.settle()
    again.advance(20_000)
    assert again.consumer_group().epoch == driver.consumer_group().epoch
    assert not any(key.kind is BACK_OFF for key in again.timers)


def test_static_successor_of_one_who_is_held_back_is_held_back_and_let_go_on() -> None:
    """A held back static member that restarts under another member id stays held back until the back-off ends."""
    driver = driver_with_steady()
    for number in range(3):
        driver.enter(f"static-{number}", client_id="static", instance="i")
        driver.settle("steady", f"static-{number}")
        wait(driver, SESSION_MS + 5_000)
    driver.enter("static-3", client_id="static", instance="i")
    driver.settle("steady", "static-3")
    assert driver.go("static-3", instance="i", for_a_while=True).code is ErrorCode.NONE
    driver.enter("static-4", client_id="static", instance="i")
    driver.settle("steady", "static-4")
    assert driver.assigned("static-4") == {}
    again = driver.reload()
    for _ in range(3):
        again.advance(5_000)
        again.settle("steady", "static-4", rounds=2)
    assert len(again.assigned("static-4")["events"]) == 3


def test_it_is_let_go_on_though_its_removal_was_refused() -> None:
    """A back-off still ends if the log refused the removal of the member meanwhile."""
    driver = driver_with_steady()
    for number in range(3):
        crash(driver, number)
    driver.enter("looping-3", client_id="looping")
    driver.settle("steady", "looping-3")
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.maybe_beat("looping-3", -1)
    driver.append_error = None
    for _ in range(4):
        driver.advance(5_000)
        driver.settle("steady", "looping-3", rounds=2)
    assert len(driver.assigned("looping-3")["events"]) == 3


def test_death_that_could_not_be_written_counts_once_it_is() -> None:
    """A removal that the log refuses is retried, and counts as the third death when it is written."""
    driver = driver_with_steady()
    for number in range(2):
        crash(driver, number)
    driver.enter("looping-2", client_id="looping")
    driver.settle("steady", "looping-2")
    for _ in range(8):
        driver.advance(5_000)
        driver.settle("steady", rounds=2)
    driver.append_error = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.advance(5_000)
    assert "looping-2" in driver.consumer_group().members
    driver.append_error = None
    driver.advance(1_000)
    assert "looping-2" not in driver.consumer_group().members
    assert driver.happened(RebalanceNeeded)[-1].crash_loop
    assert driver.happened(MemberRemoved)[-1].detail.endswith("3 deaths without a commit")


def test_the_join_that_is_held_back_says_that_it_is_one_of_a_loop() -> None:
    """Only the event of a join that is held back is marked as a crash loop, as in classic groups."""
    driver = driver_with_steady()
    for number in range(3):
        crash(driver, number)
    driver.enter("looping-3", client_id="looping")
    driver.enter("calm", client_id="calm")
    joins = [event for event in driver.happened(RebalanceNeeded) if event.cause is Cause.MEMBER_JOINED]
    assert [(event.member_id, event.crash_loop) for event in joins[-3:]] == [
        ("looping-2", False),
        ("looping-3", True),
        ("calm", False),
    ]
    assert joins[-2].detail == "member looping-3 joined; it is in a crash loop"


def test_another_coordinator_knows_of_no_deaths() -> None:
    """A new coordinator does not know earlier deaths, so the next incarnation gets its share."""
    driver = driver_with_steady()
    for number in range(3):
        crash(driver, number)
    again = driver.reload()
    again.enter("looping-3", client_id="looping")
    again.settle("steady", "looping-3")
    assert len(again.assigned("looping-3")["events"]) == 3


def test_one_that_was_alone_when_it_came_is_let_go_on_too() -> None:
    """A member that was alone at its join is held back when another member joins, and its back-off ends as usual."""
    driver = LoadDriver(settings=SETTINGS)
    for number in range(3):
        driver.enter(f"looping-{number}", client_id="looping")
        driver.advance(SESSION_MS + 1_000)
    driver.enter("looping-3", client_id="looping")
    driver.settle("looping-3")
    assert len(driver.assigned("looping-3")["events"]) == 6
    driver.enter("steady", client_id="steady")
    driver.settle("looping-3", "steady")
    assert driver.assigned("looping-3") == {}
    for _ in range(4):
        driver.advance(5_000)
        driver.settle("looping-3", "steady", rounds=2)
    assert len(driver.assigned("looping-3")["events"]) == 3


def test_another_one_of_the_same_name_is_let_go_on_too() -> None:
    """A running member without a commit is held back after three deaths of its client id, and the back-off ends."""
    driver = driver_with_steady()
    driver.enter("twin", client_id="looping")
    driver.settle("steady", "twin")
    for number in range(3):
        driver.enter(f"looping-{number}", client_id="looping")
        for _ in range(SESSION_MS // 5_000 + 1):
            driver.advance(5_000)
            driver.settle("steady", "twin", rounds=2)
    assert driver.assigned("twin") == {}
    for _ in range(4):
        driver.advance(5_000)
        driver.settle("steady", "twin", rounds=2)
    assert len(driver.assigned("twin")["events"]) == 3


@pytest.mark.parametrize("commit", [commit_plainly, commit_exactly_once])
def test_one_that_commits_keeps_its_share_though_another_coordinator_let_it_in(commit: Commit) -> None:
    """A member that commits under a new coordinator is not held back for later deaths of members with its client id."""
    driver = driver_with_steady()
    driver.enter("twin", client_id="looping")
    driver.settle("steady", "twin")
    again = driver.reload()
    again.settle("steady", "twin")
    assert commit(again, "twin") is ErrorCode.NONE
    for number in range(3):
        again.enter(f"looping-{number}", client_id="looping")
        for _ in range(SESSION_MS // 5_000 + 1):
            again.advance(5_000)
            again.settle("steady", "twin", rounds=2)
    assert again.happened(RebalanceNeeded)[-1].crash_loop
    assert len(again.assigned("twin")["events"]) == 3


def test_static_member_that_goes_for_a_while_has_not_died() -> None:
    """A static member that leaves temporarily is not in a crash loop, even if its session ends before it returns."""
    driver = driver_with_steady()
    for number in range(4):
        name = f"static-{number}"
        driver.enter(name, client_id="static", instance="i")
        driver.settle("steady", name)
        assert driver.go(name, instance="i", for_a_while=True).code is ErrorCode.NONE
        wait(driver, SESSION_MS + 5_000)
        assert name not in driver.consumer_group().members
    assert not any(event.crash_loop for event in driver.happened(RebalanceNeeded))


def test_life_of_a_static_member_ends_when_another_takes_its_place() -> None:
    """Only the current incarnation of a static member is remembered, however often the member restarts."""
    driver = driver_with_steady()
    for number in range(4):
        driver.enter(f"static-{number}", client_id="static", instance="i")
        driver.go(f"static-{number}", instance="i", for_a_while=True)
    assert driver.shard.consumer_groups.lifetimes._lifetimes[GROUP].keys() == {"steady", "static-3"}
