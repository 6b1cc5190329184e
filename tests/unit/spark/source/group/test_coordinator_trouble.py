"""Tests how often trouble with an unavailable coordinator is reported."""

from __future__ import annotations

from klamm.spark.source.group.coordinator_trouble import CoordinatorTrouble


def test_a_trouble_is_told_of_when_it_begins_and_once_a_minute() -> None:
    """A trouble is reported when it begins and then once a minute, although it occurs ten times a second."""
    trouble = CoordinatorTrouble()

    told = [tenths for tenths in range(1_500) if trouble.meet("COORDINATOR_NOT_AVAILABLE", tenths / 10)]

    assert told == [0, 600, 1_200]


def test_another_trouble_is_told_of_at_once() -> None:
    """A second kind of trouble is reported at once, but two kinds that alternate are not reported each time."""
    trouble = CoordinatorTrouble()

    told = [
        (tenths, what)
        for tenths, what in enumerate(["nobody there", *["NOT_COORDINATOR", "nobody there"] * 299])
        if trouble.meet(what, tenths / 10)
    ]

    assert told == [(0, "nobody there"), (1, "NOT_COORDINATOR")]


def test_its_end_is_told_of_once() -> None:
    """The end of a trouble is reported once, with its duration; the same trouble is then reported again if it
    returns."""
    trouble = CoordinatorTrouble()
    assert trouble.end(5.0) is None

    trouble.meet("nobody there", 10.0)
    trouble.meet("NOT_COORDINATOR", 12.0)
    assert trouble.end(17.5) == 7.5
    assert trouble.end(18.0) is None

    assert trouble.meet("nobody there", 20.0)
    assert trouble.end(21.0) == 1.0
