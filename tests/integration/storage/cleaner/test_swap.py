"""Segments are exchanged safely although the process ends in the middle."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

from tests.support.cleaner import clean
from tests.support.cleaner_crashes import CONFIG
from tests.support.log_folder import LogFolder
from tests.unit.storage.cleaner.test_swap import Values, fill, values_of

PROJECT = Path(__file__).parents[4]


def test_a_process_that_ends_anywhere_in_a_cleaning_leaves_every_value(tmp_path: Path) -> None:
    """I8, I9, I10: a process may end at any step of a cleaning.

    Each group of segments is then either completely old or completely new, the next cleaning succeeds, and no temporary
    file remains.
    """
    folder = LogFolder(tmp_path / "origin", CONFIG)
    folder.create()
    fill(folder, 20)
    before = values_of(folder.log())
    folder.close()
    subprocess.run(
        [sys.executable, "-m", "tests.support.cleaner_crashes", str(tmp_path / "origin"), str(tmp_path)],
        check=True,
        cwd=PROJECT,
    )
    copies = sorted((path for path in tmp_path.iterdir() if path.name.isdigit()), key=lambda path: int(path.name))
    assert len(copies) > 20, "each of so many changes was the last one once"
    seen = [_after_crash(copy) for copy in copies]
    after = seen[-1]
    assert after != before
    assert seen[0] == before
    swaps = 0
    for earlier, later in pairwise(seen):
        assert len(later) <= len(earlier)
        assert set(after) <= set(later) <= set(before)
        swaps += earlier != later
    assert 2 <= swaps <= 4, "each group of segments is exchanged at one moment"


def _after_crash(path: Path) -> Values:
    """Opens the log of a copy, checks that it is intact, and returns its values."""
    folder = LogFolder(path, CONFIG)
    log = folder.log()
    assert not log.is_offline
    assert log.log_end_offset == 20
    log.advance_high_watermark(log.log_end_offset)
    values = values_of(log)
    names = [each.name for each in log.directory.iterdir()]
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
    stems = {name.partition(".")[0] for name in names if name.endswith(".log")}
    assert {name.partition(".")[0] for name in names if name.endswith(("index",))} == stems
    entry = dict(log.producers.active())
    assert [entry[producer].last_sequence for producer in sorted(entry)] == [9, 9]
    clean(folder)
    latest = {key: value for _, key, value in values if value is not None}
    cleaned = {key: value for _, key, value in values_of(log) if value is not None}
    assert {key: latest[key] for key in cleaned} == cleaned
    folder.close()
    return values
