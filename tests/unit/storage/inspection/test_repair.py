"""Tests the repair of a data directory: all readable records are served afterwards, and no bytes are thrown away."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.log_folder import NOW_MS, ORDERS, LogFolder, append, batch, read_all

from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.types import Offset
from klamm.storage.checkpoints import (
    CLEAN_SHUTDOWN_FILE,
    LOG_START_OFFSET_FILE,
    RECOVERY_POINT_FILE,
    read_offsets,
)
from klamm.storage.directory.run_record import RunRecord
from klamm.storage.inspection.findings import PartitionReport
from klamm.storage.inspection.repair import (
    log_start_after,
    lower_recovery_points,
    mend_partition,
    raise_log_start_offsets,
    will_be_looked_through,
)
from klamm.storage.inspection.verification import KnownOfPartition, verify_missing, verify_partition


def _filled(path: Path, segment_bytes: int = 1500) -> LogFolder:
    folder = LogFolder(path)
    folder.create(segment_bytes=segment_bytes, index_interval_bytes=150)
    for number in range(30):
        append(folder.log(), batch(2, value=b"%d" % number * 10, timestamp_ms=NOW_MS + number))
    folder.directory.close()
    return folder


def _damage(path: Path, number: int) -> tuple[int, int]:
    """Flips a bit in a batch, and returns the batch's first offset and its next offset."""
    content = bytearray(path.read_bytes())
    position, header = list(iterate_batches(content))[number]
    content[position + 70] ^= 1
    path.write_bytes(content)
    return header.base_offset, header.next_offset


def _verify(folder: LogFolder) -> PartitionReport:
    partition = folder.path / str(ORDERS)
    known = KnownOfPartition(
        recovery_point=read_offsets(folder.path / RECOVERY_POINT_FILE).get(ORDERS, 0),
        log_start_offset=read_offsets(folder.path / LOG_START_OFFSET_FILE).get(ORDERS),
        is_compacted=False,
        is_closed=(folder.path / CLEAN_SHUTDOWN_FILE).exists(),
    )
    return verify_partition(partition, known) if partition.exists() else verify_missing(partition, known)


def _repair(folder: LogFolder) -> list[str]:
    report = _verify(folder)
    done = mend_partition(report)
    offset, start = will_be_looked_through(report), log_start_after(report)
    if start is not None:
        raise_log_start_offsets(folder.path, {ORDERS: start})
    if offset is not None:
        lower_recovery_points(folder.path, {ORDERS: offset})
    report = _verify(folder)
    assert not [finding for finding in report.findings if finding.severity != "note"], report.findings
    return done


@pytest.mark.parametrize(("segment", "number"), [(0, 0), (0, 1), (1, 2), (-1, 0), (-1, 1), (-1, -1)])
@pytest.mark.parametrize("is_clean", [True, False])
def test_only_the_damaged_batch_is_lost(tmp_path: Path, segment: int, number: int, is_clean: bool) -> None:
    """After the repair of a damaged batch, at any place and after any stop, a start serves all other records."""
    folder = _filled(tmp_path)
    if not is_clean:
        (tmp_path / CLEAN_SHUTDOWN_FILE).unlink()
    path = folder.log_files()[segment]
    before = path.read_bytes()
    first, end = _damage(path, number)
    damaged = path.read_bytes()
    (said,) = _repair(folder)
    assert str(path) in said
    folder.start()
    assert not folder.log().is_offline
    assert [record.offset for record in read_all(folder.log())] == [*range(first), *range(end, 60)]
    append(folder.log(), batch(1))
    folder.restart()
    assert not folder.log().is_offline
    folder.crash()
    assert not folder.log().is_offline, "a gap that a repair left is no damage"
    assert [record.offset for record in read_all(folder.log())][:first] == [*range(first)]
    folder.close()
    (kept,) = (tmp_path / str(ORDERS)).glob("*.quarantined")
    assert damaged.endswith(kept.read_bytes())
    assert len(kept.read_bytes()) in (len(before), len(before) - len(path.read_bytes()), kept.stat().st_size)


def test_a_segment_without_a_good_batch_leaves_a_gap(tmp_path: Path) -> None:
    """After the repair of a segment without a good batch, the records before and after it are served."""
    folder = _filled(tmp_path)
    first, second, third = folder.log_files()[:3]
    second.write_bytes(bytes(second.stat().st_size))
    _repair(folder)
    folder.start()
    assert not folder.log().is_offline
    lost = range(int(second.stem), int(third.stem))
    assert [record.offset for record in read_all(folder.log())] == [
        offset for offset in range(60) if offset not in lost
    ]
    folder.close()
    assert first.exists()


def test_a_torn_tail_is_cut_and_kept_beside(tmp_path: Path) -> None:
    """A repair cuts a torn tail and keeps its bytes in a `.quarantined` file."""
    folder = _filled(tmp_path, segment_bytes=100_000)
    (path,) = folder.log_files()
    content = path.read_bytes()
    path.write_bytes(content[:-9])
    (said,) = _repair(folder)
    size = path.stat().st_size
    assert f"cut at position {size}" in said
    assert (path.parent / f"{path.name}.{size}.quarantined").read_bytes() == content[size:-9]
    folder.start()
    assert folder.log().log_end_offset == 58
    folder.close()


def test_a_log_that_lost_its_end_goes_on_where_it_ends(tmp_path: Path) -> None:
    """A repair lowers the recovery point of a log that lost its end; otherwise the next start would report a loss."""
    folder = _filled(tmp_path)
    last = folder.log_files()[-1]
    for path in last.parent.glob(f"{last.stem}.*"):
        path.unlink()
    _repair(folder)
    folder.start()
    assert not folder.log().is_offline
    assert folder.log().log_end_offset == int(last.stem)
    folder.close()


def _delete(folder: LogFolder, number: int) -> None:
    folder.log_files()[number].unlink()


def _truncate(folder: LogFolder, number: int) -> None:
    folder.log_files()[number].write_bytes(b"")


@pytest.mark.parametrize("lose", [_delete, _truncate])
@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_segment_that_is_gone_can_be_given_up(
    tmp_path: Path, lose: Callable[[LogFolder, int], None], number: int, is_clean: bool
) -> None:
    """After the repair of a missing or empty segment, this start and all later ones serve the other records."""
    folder = _filled(tmp_path)
    if not is_clean:
        (tmp_path / CLEAN_SHUTDOWN_FILE).unlink()
    starts = [*(int(path.stem) for path in folder.log_files()), 60]
    lost = range(*starts[number : number + 2]) if number >= 0 else range(starts[-2], 60)
    lose(folder, number)
    folder.start()
    assert str(folder.path / str(ORDERS)) in (folder.log().offline_reason or "")
    folder.directory.close()
    assert _repair(folder)
    kept = [offset for offset in range(60) if offset not in lost]
    for start in (folder.start, folder.restart, folder.crash):
        start()
        assert [record.offset for record in read_all(folder.log())] == kept
    assert append(folder.log()).first_offset == kept[-1] + 1
    folder.close()


@pytest.mark.parametrize("has_folder", [True, False])
def test_a_partition_that_is_gone_begins_anew_where_it_ended(tmp_path: Path, has_folder: bool) -> None:
    """A repaired partition without files begins empty at its old end, so that no offset is assigned twice."""
    folder = _filled(tmp_path)
    shutil.rmtree(tmp_path / str(ORDERS))
    if has_folder:
        (tmp_path / str(ORDERS)).mkdir()
    (said,) = _repair(folder)
    assert said == f"{tmp_path / str(ORDERS)} starts again, empty, at offset 60"
    for start in (folder.start, folder.restart, folder.crash):
        start()
        assert (folder.log().log_start_offset, folder.log().log_end_offset) == (60, 60)
    assert append(folder.log()).first_offset == 60
    folder.close()


def test_indexes_are_built_anew(tmp_path: Path) -> None:
    """The start after a repair rebuilds damaged indexes."""
    folder = _filled(tmp_path)
    partition = tmp_path / str(ORDERS)
    sound = {path.name: path.read_bytes() for path in partition.glob("*index")}
    for path in partition.glob("*index"):
        path.write_bytes(b"\x7f" * len(path.read_bytes()))
    _repair(folder)
    folder.start()
    folder.close()
    assert {path.name: path.read_bytes() for path in partition.glob("*index")} == sound


def test_a_second_repair_keeps_what_the_first_put_aside(tmp_path: Path) -> None:
    """A second repair puts its bytes into a `.quarantined` file of its own."""
    folder = _filled(tmp_path)
    path = folder.log_files()[0]
    for _ in range(2):
        _damage(path, 1)
        _repair(folder)
    assert len(list(path.parent.glob("*.quarantined"))) == 2


def test_a_sound_directory_is_left_alone(tmp_path: Path) -> None:
    """A repair changes no byte of a sound partition."""
    folder = _filled(tmp_path)
    copy = tmp_path.with_name(tmp_path.name + "-copy")
    shutil.copytree(tmp_path, copy)
    assert _repair(folder) == []
    assert {path.name: path.read_bytes() for path in (tmp_path / str(ORDERS)).iterdir()} == {
        path.name: path.read_bytes() for path in (copy / str(ORDERS)).iterdir()
    }
    assert (tmp_path / CLEAN_SHUTDOWN_FILE).exists()


def test_recovery_points_are_only_ever_lowered(tmp_path: Path) -> None:
    """A repair only lowers recovery points. It removes the mark of a clean stop, so that the next start runs a
    recovery, and that of the latest run, whose records may be gone.

    If the checkpoint cannot be read, the next start reads the whole log.
    """
    folder = _filled(tmp_path)
    RunRecord(tmp_path).begin("run", kept="", recorded="")
    lower_recovery_points(tmp_path, {ORDERS: 1000})
    assert RunRecord(tmp_path).kept_runs(None) == frozenset()
    assert read_offsets(tmp_path / RECOVERY_POINT_FILE) == {ORDERS: 60}
    assert not (tmp_path / CLEAN_SHUTDOWN_FILE).exists()
    lower_recovery_points(tmp_path, {ORDERS: 4})
    assert read_offsets(tmp_path / RECOVERY_POINT_FILE) == {ORDERS: 4}
    (tmp_path / RECOVERY_POINT_FILE).write_text("rubbish")
    lower_recovery_points(tmp_path, {ORDERS: 4})
    assert read_offsets(tmp_path / RECOVERY_POINT_FILE) == {}
    folder.start()
    assert folder.log().log_end_offset == Offset(60)
    folder.close()
