"""Tests that an index that belongs to another segment is rebuilt, and that the log stays online."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, found_by_time, read_all

from klamm.protocol.types import Millis


def _filled(path: Path) -> LogFolder:
    """Returns a log of three segments with batches of different sizes, and an active fourth segment."""
    folder = LogFolder(path / "data")
    log = folder.create(index_interval_bytes=100)
    for number in range(4):
        for count in range(20 - 4 * number):
            append(log, batch(1 + (count + number) % 3, b"v" * (20 + 31 * number), NOW_MS + count + 100 * number))
        if number < 3:
            log.roll(NOW_MS)
    folder.directory.wait_for_background()
    return folder


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(("taken", "given"), [(0, 1), (1, 0), (0, 3), (3, 0), (2, 3), (3, 2), (0, 2)])
def test_an_index_of_another_segment_is_built_anew(
    tmp_path: Path, taken: int, given: int, is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With another segment's index, all records are found by offset and timestamp, and at most one log line names the
    index."""
    folder = _filled(tmp_path)
    expected = read_all(folder.log())
    if is_clean:
        folder.directory.close()
    else:
        folder.log().flush()
        folder.directory.checkpoint().result()
        for segment in folder.log()._segments:
            segment.write_indexes()
        folder.kill()
    paths = [path.with_suffix(".index") for path in folder.log_files()]
    shutil.copy(paths[taken], paths[given])
    with caplog.at_level(logging.WARNING):
        folder.start()
        log = folder.log()
        assert read_all(log) == expected
        for record in reversed(expected):
            assert read_all(log, record.offset, max_bytes=1)[0] == record
            found = found_by_time(log.search_timestamp(Millis(record.timestamp_ms)))
            assert found is not None
            assert found[1] == next(each.offset for each in expected if each.timestamp_ms >= record.timestamp_ms)
    assert log.offline_reason is None
    lines = [each.getMessage() for each in caplog.records if each.name.startswith("klamm.storage")]
    assert len([line for line in lines if str(paths[given]) in line]) <= 1
    assert not [each for each in caplog.records if each.levelno > logging.WARNING]
    folder.close()
