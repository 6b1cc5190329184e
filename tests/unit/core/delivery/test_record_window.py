"""Tests of how many records a member holds."""

from __future__ import annotations

import pytest

from klamm.core.delivery.record_window import RecordWindow

WINDOW = RecordWindow(records=100, size_bytes=1000)


@pytest.mark.parametrize(
    ("records", "size_bytes", "parts", "is_full"),
    [(99, 999, 1, False), (100, 0, 1, True), (1, 1000, 1, True), (24, 249, 4, False), (25, 0, 4, True)],
)
def test_a_part_is_full_by_records_or_by_bytes(records: int, size_bytes: int, parts: int, is_full: bool) -> None:
    """Each of four parts has a quarter of the window."""
    assert WINDOW.is_full(records, size_bytes, parts) is is_full


@pytest.mark.parametrize(
    ("records", "size_bytes", "has_room"), [(50, 500, True), (51, 0, False), (0, 501, False), (0, 0, True)]
)
def test_a_part_has_room_when_half_of_it_is_free(records: int, size_bytes: int, has_room: bool) -> None:
    """A paused partition is not resumed for a few records."""
    assert WINDOW.has_room(records, size_bytes, 1) is has_room
