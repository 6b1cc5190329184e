"""Tests which folders of partitions worlds of replicas remove."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace as Stub
from typing import Any

import pytest
from tests.simulation.clusters.disk_faults import DiskFaults
from tests.simulation.logs.device import Device

from klamm.protocol.types import BrokerId, Offset, PartitionIndex, TopicPartition
from klamm.storage.checkpoints import RECOVERY_POINT_FILE, REPLICATION_OFFSET_FILE, encode_offsets

ONE = BrokerId(1)
SYNCED, COMMITTED, NEW = (TopicPartition(name, PartitionIndex(0)) for name in ("synced", "committed", "new"))


class _World:
    """A broker whose checkpoints name synced records of one partition, and committed ones of another."""

    def __init__(self, path: Path) -> None:
        self.device = Device(path, Random(0), lambda *_: None)
        self.machines = {ONE: Stub(device=self.device)}
        self.notes = Stub(add=lambda *_: None)
        topic = Stub(partitions=[Stub(replicas=(1, 2, 3))])
        self.checks = Stub(image=Stub(topics=dict.fromkeys(("synced", "committed", "new"), topic)))
        for where in (SYNCED, COMMITTED, NEW):
            (path / str(where)).mkdir()
        (path / RECOVERY_POINT_FILE).write_bytes(encode_offsets({SYNCED: Offset(5), COMMITTED: Offset(0)}))
        (path / REPLICATION_OFFSET_FILE).write_bytes(encode_offsets({SYNCED: Offset(7), COMMITTED: Offset(9)}))

    def has_folder(self, machine: Any, where: TopicPartition) -> bool:
        return (self.device.path / str(where)).exists()

    def remove_folder(self) -> TopicPartition | None:
        """Removes a folder. Returns its partition."""
        before = self._folders()
        world: Any = self
        DiskFaults(world, Random(0))._remove_folder(ONE)
        gone = before - self._folders()
        return gone.pop() if gone else None

    def _folders(self) -> set[TopicPartition]:
        return {where for where in (SYNCED, COMMITTED, NEW) if self.has_folder(None, where)}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[_World]:
    world = _World(tmp_path)
    with world.device.attached():
        yield world


def _write(path: Path) -> None:
    descriptor = os.open(path / "file", os.O_WRONLY | os.O_CREAT)
    try:
        assert os.write(descriptor, b"content") == 7
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def test_the_folder_has_committed_records_that_were_not_synced(world: _World, tmp_path: Path) -> None:
    """I8: the high watermark proves after a kill that the folder had records."""
    _write(tmp_path)
    assert world.remove_folder() == COMMITTED


@pytest.mark.parametrize(("free_bytes", "error_rate", "failing_syncs"), [(0, 0.0, 0), (None, 1.0, 0), (None, 0.0, 1)])
def test_the_folder_has_synced_records_if_a_write_or_a_sync_has_failed(
    world: _World, tmp_path: Path, free_bytes: int | None, error_rate: float, failing_syncs: int
) -> None:
    """The broker has removed the mark of its run, so that a high watermark proves nothing. Its next run has a mark."""
    device = world.device
    device.free_bytes, device.error_rate, device.failing_syncs = free_bytes, error_rate, failing_syncs
    with pytest.raises(OSError, match=rf"Errno ({errno.ENOSPC}|{errno.EIO})"):
        _write(tmp_path)
    device.free_bytes, device.error_rate = None, 0.0
    assert world.remove_folder() == SYNCED
    device.begin_life()
    assert world.remove_folder() == COMMITTED


def test_a_write_that_fits_in_part_has_failed(world: _World, tmp_path: Path) -> None:
    """The rest of it finds no place."""
    world.device.free_bytes = 3
    descriptor = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    assert os.write(descriptor, b"content") == 3
    os.close(descriptor)
    assert world.device.has_failed
