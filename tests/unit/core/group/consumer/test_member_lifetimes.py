"""Tests of the detection of crash loops of consumer group members."""

from __future__ import annotations

from klamm.core.group.consumer.member import ConsumerGroupMember
from klamm.core.group.consumer.member_lifetimes import MemberLifetimes
from klamm.protocol.types import Millis

GROUP = "orders"
SECOND = 1000


def member(number: int, host: str = "/10.0.0.1", instance_id: str | None = None) -> ConsumerGroupMember:
    """Returns one incarnation of a member."""
    return ConsumerGroupMember(f"member-{number}", client_id="app", client_host=host, instance_id=instance_id)


STEADY = member(100, "/10.0.0.9")


def die(lifetimes: MemberLifetimes, each: ConsumerGroupMember, at: int) -> int:
    """Records the death of a member; returns the number of deaths in a row that was predicted for it."""
    deaths = lifetimes.deaths_with(GROUP, each, Millis(at))
    lifetimes.died(GROUP, each, Millis(at))
    return deaths


def live_and_die(lifetimes: MemberLifetimes, times: int, *, at: int = 0, commits: bool = False) -> int:
    """Runs incarnations of ten seconds one after the other; returns the number of deaths that count at the end."""
    deaths = 0
    for number in range(times):
        born = Millis(at + number * 10 * SECOND)
        lifetimes.joined(GROUP, f"member-{number}", born)
        if commits:
            lifetimes.committed(GROUP, member(number))
        deaths = die(lifetimes, member(number), born + 9 * SECOND)
    return deaths


def test_the_fourth_incarnation_is_held_back() -> None:
    """A member is held back after three deaths without a commit of members with the same client id and host."""
    lifetimes = MemberLifetimes()
    assert live_and_die(lifetimes, 2) == 2
    now = Millis(20 * SECOND)
    assert lifetimes.held_back(GROUP, [STEADY, member(2)], now) == {}
    lifetimes = MemberLifetimes()
    assert live_and_die(lifetimes, 3) == 3
    now = Millis(30 * SECOND)
    assert lifetimes.held_back(GROUP, [STEADY, member(3)], now).keys() == {"member-3"}
    assert lifetimes.held_back(GROUP, [STEADY, member(3, "/10.0.0.2")], now) == {}


def test_it_waits_longer_each_time_and_then_no_more() -> None:
    """The back-off gets longer with every death, and ends when it has passed."""
    waits = []
    for times in (3, 4, 5):
        lifetimes = MemberLifetimes()
        live_and_die(lifetimes, times)
        now = Millis(times * 10 * SECOND)
        waits.append(lifetimes.held_back(GROUP, [STEADY, member(9)], now)["member-9"] - now)
    assert waits[0] < waits[1] < waits[2]
    assert lifetimes.held_back(GROUP, [STEADY, member(9)], Millis(now + waits[2])) == {}


def test_who_gets_something_done_is_not_in_a_loop() -> None:
    """Deaths after a commit do not count, and a member that commits in its current life is not held back."""
    lifetimes = MemberLifetimes()
    assert live_and_die(lifetimes, 5, commits=True) == 0
    live_and_die(lifetimes, 3)
    lifetimes.joined(GROUP, "member-3", Millis(30 * SECOND))
    lifetimes.committed(GROUP, member(3))
    assert lifetimes.held_back(GROUP, [STEADY, member(3)], Millis(30 * SECOND)) == {}


def test_a_group_of_nobody_else_holds_nobody_back() -> None:
    """A member that is alone in its group is not held back, because its partitions would have no owner."""
    lifetimes = MemberLifetimes()
    live_and_die(lifetimes, 3)
    assert lifetimes.held_back(GROUP, [member(3)], Millis(30 * SECOND)) == {}


def test_leaving_is_not_dying() -> None:
    """A leave does not count as a death, and the deaths in a deleted group are forgotten."""
    lifetimes = MemberLifetimes()
    for number in range(5):
        lifetimes.joined(GROUP, f"member-{number}", Millis(number))
        lifetimes.left(GROUP, member(number))
    assert lifetimes.held_back(GROUP, [STEADY, member(5)], Millis(100)) == {}
    live_and_die(lifetimes, 3, at=SECOND)
    lifetimes.forget(GROUP)
    assert lifetimes.held_back(GROUP, [STEADY, member(3)], Millis(31 * SECOND)) == {}


def test_who_died_under_another_coordinator_is_not_counted() -> None:
    """A death counts only if this coordinator saw the member join."""
    lifetimes = MemberLifetimes()
    assert [die(lifetimes, member(number), number) for number in range(4)] == [0, 0, 0, 0]


def test_who_commits_is_known_from_then_on_whoever_let_it_in() -> None:
    """A member that commits is not held back for deaths of its name, even if another coordinator saw it join."""
    lifetimes = MemberLifetimes()
    lifetimes.committed(GROUP, member(9))
    assert live_and_die(lifetimes, 3) == 3
    now = Millis(30 * SECOND)
    assert lifetimes.held_back(GROUP, [member(9), member(3)], now).keys() == {"member-3"}
    assert die(lifetimes, member(9), now) == 0
