"""Tests that a crash at any point of a swap leaves either the old segments or the cleaned one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.cleaner import clean
from tests.support.cleaner_crashes import CONFIG
from tests.support.log_folder import NOW_MS, LogFolder, append, read_all

from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.records import encode_batch
from klamm.protocol.types import Offset
from klamm.storage.cleaner.swap import finish_swaps
from klamm.storage.log.gaps import note_gap
from klamm.storage.log.log import Log

Values = list[tuple[int, bytes | None, bytes | None]]


def values_of(log: Log) -> Values:
    return [(record.offset, record.key, record.value) for record in read_all(log)]


def fill(folder: LogFolder, count: int) -> None:
    for number in range(count):
        key = b"k%d" % (number % 3 if number < count // 2 else number % 5)
        value = None if number % 7 == 3 else b"v%d" % number
        append(
            folder.log(),
            encode_batch(
                [(NOW_MS, key, value, ())], producer_id=number % 2, producer_epoch=0, base_sequence=number // 2
            ),
        )


def _interrupted(tmp_path: Path) -> tuple[LogFolder, Path, Values]:
    """Returns a closed folder in which a crash interrupted the renaming of a cleaned segment's files."""
    folder = LogFolder(tmp_path / "data", replace(CONFIG, segment_bytes=400))
    folder.create()
    fill(folder, 20)
    folder.config = replace(folder.config, segment_bytes=100_000)
    folder.log().update_config(folder.config)
    old = {
        path: path.read_bytes()
        for path in folder.log().directory.glob("*.*")
        if path.suffix not in (".snapshot", ".tmp")
    }
    assert clean(folder)
    values = values_of(folder.log())
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
    """A start finishes a swap that had begun, and removes all old segments within the offsets of the cleaned one."""
    folder, directory, values = _interrupted(tmp_path)
    assert len(list(directory.glob("*.log"))) > 3
    folder.start()
    assert values_of(folder.log()) == values
    assert folder.log().segment_count == 2
    folder.close()


def test_a_gap_before_the_segment_stays_noted(tmp_path: Path) -> None:
    """I8: a finished swap keeps the note of the gap before the segment, and drops the notes of gaps within it."""
    folder, directory, _ = _interrupted(tmp_path)
    for offset in (0, 5):
        note_gap(directory, Offset(0), Offset(offset), "a test says so")
    folder.start()
    assert [path.name for path in directory.glob("*.gap")] == [f"{0:020d}.gap"]
    folder.close()


def test_a_swap_that_had_not_begun_is_undone(tmp_path: Path) -> None:
    """If a `.cleaned` file exists, the swap had not begun, and a start keeps the old segments."""
    folder, directory, values = _interrupted(tmp_path)
    log = directory / f"{0:020d}.timeindex.swap"
    log.rename(log.with_name(f"{0:020d}.timeindex.cleaned"))
    folder.start()
    assert len(values_of(folder.log())) == 20 > len(values)
    folder.close()


def test_a_start_that_is_interrupted_while_it_undoes_a_swap_does_not_make_it_look_begun(tmp_path: Path) -> None:
    """A start that undoes a swap removes the `.cleaned` file last; otherwise the next start would finish half a
    swap."""
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
    """A damaged `.swap` file takes the partition offline: the old segments are partly gone, so nothing may be cut."""
    folder, directory, _ = _interrupted(tmp_path)
    log = directory / f"{0:020d}.log.swap"
    log.write_bytes(log.read_bytes()[:-1])
    folder.start()
    assert folder.log().is_offline
    assert str(log) in (folder.log().offline_reason or "")
    assert log.exists()
    folder.kill()


def test_a_folder_without_a_cleaner_s_files_is_left_alone(tmp_path: Path) -> None:
    """In a folder without files of the cleaner, nothing is renamed, created or removed."""
    (tmp_path / f"{0:020d}.log").touch()
    finish_swaps(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"{0:020d}.log"]


@pytest.mark.parametrize("reader", ["read", "headers"])
def test_a_cleaned_segment_tells_up_to_where_it_reaches(tmp_path: Path, reader: str) -> None:
    """A cleaned segment keeps its last batch, at least its header, so that a start knows which segments it replaces."""
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
        assert [offset for offset, _, _ in values_of(log)] == [4]
    folder.close()
