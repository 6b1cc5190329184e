"""How often is spoken of a coordinator that can't be had."""

from __future__ import annotations

from klamm.spark.source.coordinator_trouble import CoordinatorTrouble


def test_a_trouble_is_told_of_when_it_begins_and_once_a_minute() -> None:
    """It is met ten times a second."""
    trouble = CoordinatorTrouble()

    told = [tenths for tenths in range(1_500) if trouble.meet("COORDINATOR_NOT_AVAILABLE", tenths / 10)]

    assert told == [0, 600, 1_200]


def test_another_trouble_is_told_of_at_once() -> None:
    """Two that take turns do not make a line each time."""
    trouble = CoordinatorTrouble()

    told = [
        (tenths, what)
        for tenths, what in enumerate(["nobody there", *["NOT_COORDINATOR", "nobody there"] * 299])
        if trouble.meet(what, tenths / 10)
    ]

    assert told == [(0, "nobody there"), (1, "NOT_COORDINATOR")]


def test_its_end_is_told_of_once() -> None:
    """With how long it lasted; the next trouble is news again, even if it is the same."""
    trouble = CoordinatorTrouble()
    assert trouble.end(5.0) is None

    trouble.meet("nobody there", 10.0)
    trouble.meet("NOT_COORDINATOR", 12.0)
    assert trouble.end(17.5) == 7.5
    assert trouble.end(18.0) is None

    assert trouble.meet("nobody there", 20.0)
    assert trouble.end(21.0) == 1.0
