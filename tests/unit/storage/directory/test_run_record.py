"""Tests when the mark of a run says that a data directory holds everything that the run has written."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.failing_calls import failing
from tests.support.log_folder import ORDERS, LogFolder, append, read_all

from klamm.protocol.errors import KafkaError
from klamm.protocol.types import PartitionIndex, TopicPartition
from klamm.storage.checkpoints import REPLICATION_OFFSET_FILE
from klamm.storage.directory.page_cache import identify_page_cache
from klamm.storage.directory.run_record import RUN_MARK_FILE, RunRecord
from klamm.storage.log.failed_sync import note_failed_sync

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux identifies its page cache")


def _begin(folder: LogFolder) -> None:
    folder.create()
    append(folder.log())
    folder.directory.owner.run.begin("second", kept="first", recorded="first")


def test_killed_run_is_kept(folder: LogFolder) -> None:
    """A process that is killed loses nothing that it has written. The next start counts on the same page cache."""
    _begin(folder)
    append(folder.log())
    folder.crash()
    assert folder.directory.owner.run.kept_runs(None) == {"first", "second"}
    assert len(read_all(folder.log())) == 2


def test_killed_run_keeps_its_high_watermarks(folder: LogFolder) -> None:
    """After a kill the logs have all records that were committed, synced or not."""
    _begin(folder)
    append(folder.log())
    folder.directory.checkpoint().result()
    folder.crash()
    assert (folder.log().recovery_point, folder.log().high_watermark) == (0, 2)


def test_lost_run_keeps_high_watermarks_up_to_its_recovery_points(folder: LogFolder) -> None:
    """Once one log has lost records, the page cache is lost. Then the others may have records above their recovery
    points that were truncated and came back, and nothing tells these from committed ones."""
    _begin(folder)
    other = TopicPartition("orders", PartitionIndex(1))
    append(folder.create(other))
    folder.log().flush()
    for topic_partition in (ORDERS, other):
        append(folder.log(topic_partition))
    folder.directory.checkpoint().result()
    folder.kill()
    os.truncate(folder.log_files(other)[0], 0)
    folder.start()
    assert (folder.log().recovery_point, folder.log().high_watermark, folder.log().log_end_offset) == (1, 1, 2)
    assert folder.log(other).high_watermark == 0


def test_incomplete_last_batch_is_no_loss(folder: LogFolder) -> None:
    """A process may be killed during a write. The batch was not acknowledged."""
    _begin(folder)
    append(folder.log())
    path = folder.log_files()[0]
    for size in (1, 30, 70):
        folder.kill()
        os.truncate(path, path.stat().st_size - size)
        folder.start()
        assert folder.directory.owner.run.kept_runs(None) == {"first", "second"}
        append(folder.log())


@pytest.mark.parametrize("value", [0, 1])
def test_lost_pages_are_a_loss(folder: LogFolder, value: int) -> None:
    """A page that the system could not write is lost although the machine goes on. The mark goes before the log is cut:
    a kill between the two must not hide the loss."""
    _begin(folder)
    append(folder.log())
    folder.kill()
    path = folder.log_files()[0]
    half = path.stat().st_size // 2
    path.write_bytes(path.read_bytes()[:half] + bytes([value]) * half)
    with failing("truncate", errno.EIO):
        folder.start()
    assert folder.directory.owner.run.kept_runs(None) == frozenset()


def test_bad_batch_in_the_middle_is_a_loss(folder: LogFolder) -> None:
    """Complete batches follow, so the write of the bad one had returned."""
    _begin(folder)
    append(folder.log())
    append(folder.log())
    folder.kill()
    path = folder.log_files()[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    folder.start()
    assert folder.directory.owner.run.kept_runs(None) == frozenset()


def test_log_that_ends_below_its_high_watermark_is_a_loss(folder: LogFolder) -> None:
    """Committed records were there at the last checkpoint."""
    _begin(folder)
    folder.directory.checkpoint().result()
    folder.kill()
    (folder.path / REPLICATION_OFFSET_FILE).write_text(f"0\n1\n{ORDERS.topic} {ORDERS.partition} 2\n")
    folder.start()
    assert folder.directory.owner.run.kept_runs(None) == frozenset()


def _write_fails(folder: LogFolder) -> None:
    with failing("pwritev", errno.ENOSPC), pytest.raises(KafkaError):
        append(folder.log())


def _sync_fails(folder: LogFolder) -> None:
    with failing("fdatasync", errno.EIO), pytest.raises(KafkaError):
        folder.log().flush()


@pytest.mark.parametrize("fail", [_write_fails, _sync_fails])
def test_failure_of_the_disk_ends_the_trust(folder: LogFolder, fail: Callable[[LogFolder], None]) -> None:
    """After a failed write or sync nobody knows what is still in the page cache. The rest of the run has no mark."""
    _begin(folder)
    fail(folder)
    assert not (folder.path / RUN_MARK_FILE).exists()
    folder.directory.owner.run.begin("second", kept="first", recorded="first")
    folder.crash()
    assert folder.directory.owner.run.kept_runs(None) == frozenset()


def test_earlier_failed_sync_ends_the_trust(folder: LogFolder) -> None:
    """The mark of the run could not be removed, but that of the failed sync is there."""
    _begin(folder)
    folder.kill()
    note_failed_sync(folder.path / str(ORDERS))
    folder.start()
    assert folder.directory.owner.run.kept_runs(None) == frozenset()


def test_restart_of_the_machine_ends_the_trust(folder: LogFolder) -> None:
    """The boot id in the mark is not the present one."""
    _begin(folder)
    path = folder.path / RUN_MARK_FILE
    body = json.loads(path.read_bytes())
    body["cache"]["boot_id"] = "another"
    path.write_text(json.dumps(body))
    folder.crash()
    assert folder.directory.owner.run.kept_runs(None) == frozenset()


def test_copy_of_a_directory_is_not_trusted(tmp_path: Path) -> None:
    """Records may have been written to the original since."""
    (tmp_path / "one").mkdir()
    RunRecord(tmp_path / "one").begin("second", kept="first", recorded="first")
    assert RunRecord(tmp_path / "one").kept_runs(None) == {"first", "second"}
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert RunRecord(tmp_path / "two").kept_runs(None) == frozenset()


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "3", '{"version":2}', '{"version":1,"incarnation":"a","kept":"","cache":{"x":1}}']
)
def test_unreadable_mark_proves_nothing(tmp_path: Path, content: str) -> None:
    """A mark that is torn, or of another version, is no mark."""
    (tmp_path / RUN_MARK_FILE).write_text(content)
    assert RunRecord(tmp_path).kept_runs(None) == frozenset()


def test_page_cache_is_that_of_the_file_system(tmp_path: Path) -> None:
    """Two folders of a file system differ in their numbers only; another file system is another page cache."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = identify_page_cache(tmp_path / "one"), identify_page_cache(tmp_path / "two")
    assert one is not None
    assert two is not None
    assert one._replace(folder=two.folder) == two
    other = identify_page_cache(Path("/proc"))
    assert other is not None
    assert (other.mount, other.device) != (one.mount, one.device)
    assert identify_page_cache(tmp_path / "none") is None


def test_recorded_runs_outlast_a_start_that_did_not_register(tmp_path: Path) -> None:
    """A run is recorded before it registers. If it ends before that, the run that has registered last is still known:
    otherwise the directory would look like a new one."""
    record = RunRecord(tmp_path)
    assert record.recorded_runs(None) == frozenset()
    assert record.recorded_runs("first") == {"first"}
    record.begin("second", kept="", recorded="first")
    assert RunRecord(tmp_path).recorded_runs("second") == {"first", "second"}
    assert RunRecord(tmp_path).recorded_runs("third") == {"third"}
    record.distrust()
    assert RunRecord(tmp_path).recorded_runs("second") == {"second"}
