"""A crash at any point of a cleaning leaves the old segments or the new one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from tests.support.cleaner import clean
from tests.support.cleaner_crashes import CONFIG
from tests.support.log_folder import NOW_MS, LogFolder, append, read_all

from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.records import encode_batch
from klamm.protocol.types import Offset
from klamm.storage.cleaner.swap import finish_swaps
from klamm.storage.gaps import note_gap
from klamm.storage.log import Log

PROJECT = Path(__file__).parents[4]

Values = list[tuple[int, bytes | None, bytes | None]]


def _values(log: Log) -> Values:
    return [(record.offset, record.key, record.value) for record in read_all(log)]


def _fill(folder: LogFolder, count: int) -> None:
    for number in range(count):
        key = b"k%d" % (number % 3 if number < count // 2 else number % 5)
        value = None if number % 7 == 3 else b"v%d" % number
        append(
            folder.log(),
            encode_batch(
                [(NOW_MS, key, value, ())], producer_id=number % 2, producer_epoch=0, base_sequence=number // 2
            ),
        )


def test_a_process_that_ends_anywhere_in_a_cleaning_leaves_every_value(tmp_path: Path) -> None:
    """I8, I9, I10: after each, all is as before or as after for every group of segments; the next cleaning gets
    everything to the end; and nothing is left lying about."""
    folder = LogFolder(tmp_path / "origin", CONFIG)
    folder.create()
    _fill(folder, 20)
    before = _values(folder.log())
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
    """What is in the log once it is open again; checks that it can be lived with."""
    folder = LogFolder(path, CONFIG)
    log = folder.log()
    assert not log.is_offline
    assert log.log_end_offset == 20
    log.advance_high_watermark(log.log_end_offset)
    values = _values(log)
    names = [each.name for each in log.directory.iterdir()]
    assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
    stems = {name.partition(".")[0] for name in names if name.endswith(".log")}
    assert {name.partition(".")[0] for name in names if name.endswith(("index",))} == stems
    entry = dict(log.producers.active())
    assert [entry[producer].last_sequence for producer in sorted(entry)] == [9, 9]
    clean(folder)
    latest = {key: value for _, key, value in values if value is not None}
    cleaned = {key: value for _, key, value in _values(log) if value is not None}
    assert {key: latest[key] for key in cleaned} == cleaned
    folder.close()
    return values


def _interrupted(tmp_path: Path) -> tuple[LogFolder, Path, Values]:
    """A closed folder whose first segments were cleaned, all but renaming them."""
    folder = LogFolder(tmp_path / "data", replace(CONFIG, segment_bytes=400))
    folder.create()
    _fill(folder, 20)
    folder.config = replace(folder.config, segment_bytes=100_000)
    folder.log().update_config(folder.config)
    old = {
        path: path.read_bytes()
        for path in folder.log().directory.glob("*.*")
        if path.suffix not in (".snapshot", ".tmp")
    }
    assert clean(folder)
    values = _values(folder.log())
    folder.kill()
    directory = folder.log_files()[0].parent
    for path in directory.glob(f"{0:020d}.*"):
        if path.suffix in {".log", ".index", ".timeindex"}:
            path.rename(path.with_name(path.name + ".swap"))
    for path, content in old.items():
        if not path.exists():
            path.write_bytes(content)
    for path in directory.glob("*.deleted"):
        path.unlink()
    return folder, directory, values


def test_a_swap_that_had_begun_is_finished(tmp_path: Path) -> None:
    """All old segments within its offsets go, however few of them had been renamed by then."""
    folder, directory, values = _interrupted(tmp_path)
    assert len(list(directory.glob("*.log"))) > 3
    folder.start()
    assert _values(folder.log()) == values
    assert folder.log().segment_count == 2
    folder.close()


def test_a_gap_before_the_segment_stays_noted(tmp_path: Path) -> None:
    """I8: after the swap as before it, the offsets before the segment are missing on purpose. Gaps within it are its
    own."""
    folder, directory, _ = _interrupted(tmp_path)
    for offset in (0, 5):
        note_gap(directory, Offset(0), Offset(offset), "a test says so")
    folder.start()
    assert [path.name for path in directory.glob("*.gap")] == [f"{0:020d}.gap"]
    folder.close()


def test_a_swap_that_had_not_begun_is_undone(tmp_path: Path) -> None:
    """One `.cleaned` file says so: the old segments stay."""
    folder, directory, values = _interrupted(tmp_path)
    log = directory / f"{0:020d}.timeindex.swap"
    log.rename(log.with_name(f"{0:020d}.timeindex.cleaned"))
    folder.start()
    assert len(_values(folder.log())) == 20 > len(values)
    folder.close()


def test_a_start_that_is_interrupted_while_it_undoes_a_swap_does_not_make_it_look_begun(tmp_path: Path) -> None:
    """The `.cleaned` file that says so goes last: otherwise the next start would finish half of a swap."""
    for suffix in (".log.swap", ".timeindex.cleaned"):
        (tmp_path / f"{0:020d}{suffix}").touch()
    in_the_way = tmp_path / f"{0:020d}.index.swap"
    in_the_way.mkdir()
    with pytest.raises(OSError, match=r"index\.swap"):
        finish_swaps(tmp_path)
    assert (tmp_path / f"{0:020d}.timeindex.cleaned").exists()
    in_the_way.rmdir()
    finish_swaps(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_swap_takes_the_partition_offline(tmp_path: Path) -> None:
    """What it was to replace is partly gone, so nothing may be cut or made up."""
    folder, directory, _ = _interrupted(tmp_path)
    log = directory / f"{0:020d}.log.swap"
    log.write_bytes(log.read_bytes()[:-1])
    folder.start()
    assert folder.log().is_offline
    assert str(log) in (folder.log().offline_reason or "")
    assert log.exists()
    folder.kill()


def test_a_folder_without_a_cleaner_s_files_is_left_alone(tmp_path: Path) -> None:
    """Nothing is renamed, made or removed."""
    (tmp_path / f"{0:020d}.log").touch()
    finish_swaps(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{0:020d}.log"]


@pytest.mark.parametrize("reader", ["read", "headers"])
def test_a_cleaned_segment_tells_up_to_where_it_reaches(tmp_path: Path, reader: str) -> None:
    """Its last batch stays, if only as a header: a start must know which segments it replaces."""
    folder = LogFolder(tmp_path / "data", CONFIG)
    log = folder.create()
    for _ in range(4):
        append(log, encode_batch([(NOW_MS, b"k", b"v", ())]))
    log.roll(folder.now_ms)
    append(log, encode_batch([(NOW_MS, b"k", b"v", ())]))
    log.roll(folder.now_ms)
    assert clean(folder)
    content = folder.log_files()[0].read_bytes()
    headers = [header for _, header in iterate_batches(content)]
    if reader == "headers":
        assert headers[-1].next_offset == 5
    else:
        assert [offset for offset, _, _ in _values(log)] == [4]
    folder.close()
