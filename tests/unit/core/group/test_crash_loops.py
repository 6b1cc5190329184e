"""Tests of the detection of crash loops, and of the back-off of their members."""

from __future__ import annotations

import pytest

from klamm.core.group.crash_loops import CrashLoops, lasting_name
from klamm.protocol.types import Millis

NAME = "pod-1"
MINUTE = 60_000


def at(milliseconds: int) -> Millis:
    return Millis(1_700_000_000_000 + milliseconds)


def dead(times: int) -> CrashLoops:
    """Returns crash loops with this number of deaths, a minute apart, the last one at minute `times - 1`."""
    loops = CrashLoops()
    for death in range(times):
        loops.note_death(NAME, at(death * MINUTE), False)
    return loops


def test_three_deaths_without_a_commit_are_a_crash_loop() -> None:
    """Three deaths without a commit are a crash loop, and two are not."""
    assert not dead(2).is_looping(NAME, at(MINUTE))
    assert dead(2).held_back_until(NAME, at(MINUTE)) is None
    loops = dead(3)
    assert loops.is_looping(NAME, at(2 * MINUTE))
    assert loops.held_back_until(NAME, at(2 * MINUTE)) == at(2 * MINUTE + 10_000)
    assert not loops.is_looping("pod-2", at(2 * MINUTE))


@pytest.mark.parametrize(("deaths", "seconds"), [(3, 10), (4, 20), (5, 40), (7, 160), (8, 300), (30, 300)])
def test_back_off_grows_with_each_death(deaths: int, seconds: int) -> None:
    """The back-off doubles with each death, up to five minutes."""
    last = (deaths - 1) * MINUTE
    assert dead(deaths).held_back_until(NAME, at(last)) == at(last + seconds * 1000)


def test_nobody_is_held_back_after_the_time_is_up() -> None:
    """The back-off ends after its time, and the next death starts a longer one."""
    loops = dead(3)
    assert loops.held_back_until(NAME, at(2 * MINUTE + 10_000)) is None
    loops.note_death(NAME, at(3 * MINUTE), False)
    assert loops.held_back_until(NAME, at(3 * MINUTE)) == at(3 * MINUTE + 20_000)


def test_commit_ends_the_loop() -> None:
    """A commit ends a crash loop, whether it is reported at once or with the death."""
    loops = dead(3)
    loops.note_commit(NAME)
    assert loops.deaths(NAME, at(2 * MINUTE)) == 0
    loops = dead(3)
    loops.note_death(NAME, at(3 * MINUTE), True)
    assert loops.deaths(NAME, at(3 * MINUTE)) == 0


def test_half_an_hour_without_a_death_is_forgiven() -> None:
    """The count of deaths starts again after half an hour without a death."""
    loops = dead(3)
    later = at(2 * MINUTE + 30 * MINUTE + 1)
    assert not loops.is_looping(NAME, later)
    loops.note_death(NAME, later, False)
    assert loops.deaths(NAME, later) == 1


def test_members_that_died_together_count_once() -> None:
    """Members of one name that lived at the same time count as one death, so a host that stops is no crash loop. All
    consumers of one host have the same name if they have the same client id.
    """
    loops = CrashLoops()
    name = lasting_name(None, "rdkafka", "/10.0.0.1")
    for member in range(5):
        loops.note_death(name, at(MINUTE + member), False, joined_at=at(member), died_at=at(50_000))
    assert loops.deaths(name, at(2 * MINUTE)) == 1
    loops.note_death(name, at(3 * MINUTE), False, joined_at=at(50_001), died_at=at(2 * MINUTE))
    assert loops.deaths(name, at(3 * MINUTE)) == 2


def test_static_members_are_known_by_their_instance_id() -> None:
    """A static member is known by its instance id, whatever its client id and host are."""
    assert lasting_name("pod-1", "a", "/10.0.0.1") == lasting_name("pod-1", "b", "/10.0.0.2")
    assert lasting_name(None, "a", "/10.0.0.1") != lasting_name(None, "a", "/10.0.0.2")


def test_only_so_many_names_are_remembered() -> None:
    """At most 1,000 names are remembered, and the oldest is forgotten."""
    loops = CrashLoops()
    for number in range(1001):
        loops.note_death(number, at(number), False)
    assert [loops.deaths(number, at(1001)) for number in (0, 1, 1000)] == [0, 1, 1]
