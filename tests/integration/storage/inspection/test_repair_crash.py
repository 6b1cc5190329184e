"""A repair that ends at any step leaves the old or the repaired segment on the disk and loses no removed byte."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.log_folder import NOW_MS, ORDERS, LogFolder, append, batch, read_all

from klamm.protocol.record_batch import iterate_batches
from klamm.storage.inspection.repair import lower_recovery_points
from klamm.storage.inspection.verification import KnownOfPartition, verify_partition

REPAIR = """
import os, sys
from pathlib import Path
from klamm.storage.inspection.repair import mend_partition
from klamm.storage.inspection.verification import KnownOfPartition, verify_partition

report = verify_partition(Path(sys.argv[1]), KnownOfPartition(60, 0, False, True))
left = [int(sys.argv[2])]

def end_at_a_change(event, arguments):
    is_change = event in {"os.link", "os.rename", "os.remove", "os.truncate"} or (
        event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    )
    if is_change:
        left[0] -= 1
        if left[0] < 0:
            os._exit(77)

sys.addaudithook(end_at_a_change)
mend_partition(report)
"""
ENDED = 77


def _filled(path: Path) -> LogFolder:
    folder = LogFolder(path)
    folder.create(segment_bytes=100_000, index_interval_bytes=150)
    for number in range(30):
        append(folder.log(), batch(2, value=b"%d" % number * 10, timestamp_ms=NOW_MS + number))
    folder.directory.close()
    return folder


@pytest.mark.parametrize("damaged", [3, 29])
def test_every_step_leaves_all_that_can_be_read(tmp_path: Path, damaged: int) -> None:
    """A repair that ends at any step, while it replaces or cuts a segment, keeps all readable batches; a second repair
    completes it."""
    original = tmp_path / "original"
    (segment,) = _filled(original).log_files()
    content = bytearray(segment.read_bytes())
    bounds = [(position, position + header.size_bytes) for position, header in iterate_batches(content)]
    content[bounds[damaged][0] + 70] ^= 1
    segment.write_bytes(content)
    steps = 0
    while True:
        path = tmp_path / str(steps)
        shutil.copytree(original, path)
        partition = path / str(ORDERS)
        command = [sys.executable, "-c", REPAIR, str(partition), str(steps)]
        status = subprocess.run(command, check=False, timeout=60).returncode
        good = b"".join(bytes(content[start:end]) for number, (start, end) in enumerate(bounds) if number != damaged)
        now = (partition / segment.name).read_bytes()
        assert now in (bytes(content), good), f"step {steps}"
        if now == good:
            kept = b"".join(each.read_bytes() for each in partition.glob("*.quarantined"))
            assert content[slice(*bounds[damaged])] in kept, f"step {steps}"
        report = verify_partition(partition, KnownOfPartition(0, 0, False, False))
        assert report.batches == len(bounds) - 1
        if status == 0:
            break
        assert status == ENDED
        steps += 1
    assert steps > 3
    lower_recovery_points(path, {ORDERS: report.log_end_offset})
    folder = LogFolder(path)
    expected = [offset for offset in range(60) if offset // 2 != damaged]
    assert [record.offset for record in read_all(folder.log())] == expected
    folder.close()
