"""Tests that the demo's comparison finds rows that are missing, repeated or different."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from examples.flights.comparison import compare, compare_dead_letters, compare_handled
from examples.flights.data import Flight
from examples.flights.outcome import DeadLetter, read_handled

if TYPE_CHECKING:
    import pandas


@pytest.fixture
def expected() -> pandas.DataFrame:
    module = pytest.importorskip("pandas")
    rows = [("ATL", None, 3, 1.5), ("LAX", "Los Angeles", 4, None), ("LAX", "Los Angeles", 4, None)]
    made: pandas.DataFrame = module.DataFrame(rows, columns=["airport", "name", "flights", "delay"])
    return made


def test_the_same_rows_in_another_order(expected: pandas.DataFrame, capsys: pytest.CaptureFixture[str]) -> None:
    """The order of rows and columns, and the width of numbers, make no difference; the line says that all agrees."""
    found = expected.iloc[::-1][["delay", "flights", "airport", "name"]].astype({"flights": "int32"})
    assert compare("topic delays", "rows", found, expected)
    assert capsys.readouterr().out.startswith("topic delays: 3 rows, exactly those that pandas computes")


@pytest.mark.parametrize("rows", [[0, 1], [0, 1, 2, 2], [0, 0, 1]], ids=["missing", "repeated", "another"])
def test_other_rows(expected: pandas.DataFrame, rows: list[int], capsys: pytest.CaptureFixture[str]) -> None:
    """A row that is missing or that is there too often is a difference, and the line says so."""
    assert not compare("topic delays", "rows", expected.iloc[rows], expected)
    assert "DIFFERENT" in capsys.readouterr().out


def test_a_missing_value_is_no_text(expected: pandas.DataFrame) -> None:
    """A name that is missing differs from a name that is there."""
    assert not compare("topic delays", "rows", expected.fillna({"name": "Atlanta"}), expected)


def test_dead_letters(capsys: pytest.CaptureFixture[str]) -> None:
    """Each dead letter is shown with its origin, its reason and the end of its bytes."""
    letter = DeadLetter("the value is not JSON", "flights-3 at offset 7", b"x" * 100)
    assert compare_dead_letters("topic letters", [letter], [Flight(0, b"", letter.value)])
    text = capsys.readouterr().out
    assert "1 dead letter" in text
    assert "flights-3 at offset 7: the value is not JSON" in text
    assert f"…{'x' * 62}" in text
    assert not compare_dead_letters("topic letters", [letter, letter], [Flight(0, b"", letter.value)])


@pytest.mark.parametrize(
    ("notes", "agrees"),
    [
        (("0 0\n0 1\n", "1 0\n"), True),
        (("0 0\n0 1\n", "0 1\n1 0\n"), True),
        (("0 0\n", "1 0\n"), False),
        (("0 0\n1 0\n", "0 1"), False),
        (("0 0\n0 1\n", "1 0\n1 1\n"), False),
    ],
    ids=["once", "again", "missing", "cut off", "not in the topic"],
)
def test_what_the_queue_has_handled(
    tmp_path: Path, notes: tuple[str, str], agrees: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """The members must have handled each record of the topic, some perhaps again after the kill. A line that the kill
    has cut off does not count."""
    for number, text in enumerate(notes):
        (tmp_path / f"member-{number}").write_text(text)

    assert compare_handled("group queue", read_handled(tmp_path), [2, 1]) is agrees

    assert ("exactly those of the topic" in capsys.readouterr().out) is agrees
