"""Tests gaps and repeats between a group's changes."""

from __future__ import annotations

from typing import Any

from tests.unit.core.group.history.history_records import change

from klamm.core.group.history.history_record import HistoryRecord
from klamm.insight.group.history_timeline import Change, Gap, Repeat, Timeline


def _entries(*records: dict[str, Any]) -> list[str]:
    timeline = Timeline()
    shown = []
    for fields in records:
        for entry in timeline.add(HistoryRecord.decode(change(**fields))):
            match entry:
                case Change(record):
                    shown.append(f"{record.previous_epoch}-{record.epoch}")
                case Gap(text):
                    shown.append(text)
                case Repeat(record):
                    shown.append(f"again {record.epoch}")
    return shown


def test_changes_that_follow_each_other_are_just_changes() -> None:
    """Consecutive changes have no gap, even with a new coordinator, whose sequence starts at 0; changes before the
    first record are no gap."""
    assert _entries(
        {"epoch": 6, "sequence": 11}, {"epoch": 7, "sequence": 12}, {"epoch": 8, "coordinator_epoch": 4, "sequence": 0}
    ) == ["5-6", "6-7", "7-8"]


def test_a_record_that_was_written_twice_counts_once() -> None:
    """A repeated record counts once; a coordinator writes a record again if it got no answer."""
    assert _entries({"epoch": 6}, {"epoch": 7}, {"epoch": 7}, {"epoch": 6}, {"epoch": 8}) == [
        "5-6",
        "6-7",
        "again 7",
        "again 6",
        "7-8",
    ]


def test_epochs_that_are_missing_are_a_gap() -> None:
    """Missing epochs are a gap, because a crashed coordinator did not write its decisions."""
    new = {"coordinator_epoch": 4}
    assert _entries({"epoch": 6}, {"epoch": 8, "sequence": 0, **new}) == ["5-6", "epoch 7 is not on record", "7-8"]
    assert _entries({"epoch": 6}, {"epoch": 9, "sequence": 0, **new})[1] == "epochs 7 to 8 are not on record"


def test_sequences_that_are_missing_are_a_gap() -> None:
    """Missing sequence numbers within a coordinator epoch are a gap."""
    assert _entries({"epoch": 6}, {"epoch": 7, "sequence": 8}) == ["5-6", "1 change is not on record", "6-7"]
    assert _entries({"epoch": 6}, {"epoch": 7, "sequence": 9})[1] == "2 changes are not on record"


def test_a_group_that_was_deleted_begins_anew() -> None:
    """A deleted group starts again without a gap if its deletion is on record."""
    again = {"epoch": 1, "coordinator_epoch": 3, "sequence": 8}
    assert _entries({"epoch": 7, "outcome": "deleted"}, again) == ["6-7", "0-1"]
    assert _entries({"epoch": 7}, again) == [
        "6-7",
        "the epoch went back from 7 to 0: what happened is not on record",
        "0-1",
    ]


def test_a_group_that_is_made_again_under_the_same_coordinator_does_not_repeat() -> None:
    """The sequence restarts at 0 after a deletion. Only a record that is written again has the same time, too."""
    assert _entries(
        {"epoch": 1, "sequence": 0, "finished_ms": 1_000},
        {"epoch": 1, "sequence": 1, "previous_epoch": 1, "finished_ms": 2_000, "outcome": "deleted"},
        {"epoch": 1, "sequence": 0, "finished_ms": 3_000},
        {"epoch": 2, "sequence": 1, "finished_ms": 4_000},
        {"epoch": 1, "sequence": 0, "finished_ms": 3_000},
    ) == ["0-1", "1-1", "0-1", "1-2", "again 1"]
