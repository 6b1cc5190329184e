"""Tests how a query looks for the file that stops it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from klamm.spark.source.planning.stop_file import StopFile


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_the_file_is_looked_for_once_a_second(tmp_path: Path, scheme: str) -> None:
    """The file is noticed within a second, and its removal too; calls in between do not look."""
    clock = Clock()
    file = tmp_path / "flow" / "stop"
    stop = StopFile(f"{scheme}{file}", clock)
    assert not stop.exists()

    file.parent.mkdir()
    file.touch()
    assert not stop.exists()
    clock.now = 1.0
    assert stop.exists()

    file.unlink()
    assert stop.exists()
    clock.now = 2.0
    assert not stop.exists()


def test_an_unreadable_folder_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A folder that can't be read does not stop the query, and causes one warning."""
    clock = Clock()
    (tmp_path / "no folder").touch()
    stop = StopFile(str(tmp_path / "no folder" / "stop"), clock)

    with caplog.at_level(logging.WARNING):
        assert not stop.exists()
        clock.now = 1.0
        assert not stop.exists()

    assert len(caplog.records) == 1
