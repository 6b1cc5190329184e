"""Tests the log lines about the progress of a recovery."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.support.log_folder import LogFolder, append

from klamm.protocol.types import PartitionIndex, TopicPartition
from klamm.storage.recovery.recovery_progress import RecoveryProgress


def test_a_line_every_few_seconds(caplog: pytest.LogCaptureFixture) -> None:
    """A recovery logs every few seconds how many partitions are ready and how many bytes were read, until all are
    ready."""
    now_s = 0.0
    progress = RecoveryProgress(Path("/data"), 3, lambda: now_s)
    with caplog.at_level(logging.INFO):
        progress.read(1_000_000)
        progress.loaded()
        assert not caplog.messages
        now_s = 6.0
        progress.read(2_000_000)
        now_s = 10.0
        progress.loaded()
        assert caplog.messages == ["recovering /data after a crash: 1 of 3 partitions are ready, 3 MB were read in 6 s"]
        now_s = 20.0
        progress.loaded()
    assert len(caplog.messages) == 1


def test_only_what_may_not_be_on_the_disk_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a crash, segments below the recovery points are not read."""
    folder = LogFolder(tmp_path)
    read: list[int] = []
    monkeypatch.setattr(RecoveryProgress, "read", lambda self, size_bytes: read.append(size_bytes))
    for index in range(3):
        log = folder.create(TopicPartition("orders", PartitionIndex(index)), segment_bytes=300)
        for _ in range(20):
            append(log)
        log.flush()
    folder.directory.wait_for_background()
    folder.directory.checkpoint().result()
    sizes = [path.stat().st_size for path in tmp_path.glob("orders-*/*.log")]
    folder.crash()
    assert len(sizes) > 12
    assert len(read) == 3
    assert sum(read) < sum(sizes) / 3
    folder.close()
