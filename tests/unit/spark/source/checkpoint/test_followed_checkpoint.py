"""Tests how far a query may read that follows the checkpoint of another query."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.folders import _RemoteFolder
from klamm.spark.source.checkpoint import followed_checkpoint
from klamm.spark.source.checkpoint.followed_checkpoint import FollowedCheckpoint
from klamm.spark.source.offsets import PartitionOffsets


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def offsets(*ends: int) -> PartitionOffsets:
    return {TopicPartition("t", PartitionIndex(index)): Offset(end) for index, end in enumerate(ends)}


def plan(checkpoint: Path, batch: int, *ends: int, finished: bool = True) -> None:
    """Writes the files of a micro-batch, as Spark does."""
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    source = json.dumps({"t": {str(index): end for index, end in enumerate(ends)}})
    (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{source}")
    if finished:
        (checkpoint / "commits" / str(batch)).write_text("v1\n{}")


@pytest.mark.parametrize("scheme", ["", "file://", "pyarrow"])
def test_finished_micro_batches_are_the_limit(tmp_path: Path, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is the end of the last finished micro-batch, seen within a second; without one, nothing is read. The
    checkpoint is in a local folder, or on another file system of pyarrow."""
    clock = Clock()
    if scheme == "pyarrow":
        scheme = ""
        monkeypatch.setattr(followed_checkpoint, "folder_at", lambda location: _RemoteFolder(f"file://{location}"))
    followed = FollowedCheckpoint(f"{scheme}{tmp_path}", clock)
    assert followed.bounded(offsets(1, 2), offsets(9, 9)) == offsets(1, 2)

    plan(tmp_path, 0, 5, 6)
    plan(tmp_path, 1, 7, 7, finished=False)
    assert followed.bounded(offsets(1, 2), offsets(9, 9)) == offsets(1, 2)
    clock.now = 1.0
    assert followed.bounded(offsets(1, 2), offsets(9, 4)) == offsets(5, 4)

    plan(tmp_path, 1, 7, 7)
    plan(tmp_path, 2, 8, 8)
    clock.now = 2.0
    assert followed.bounded(offsets(5, 4), offsets(9, 9)) == offsets(8, 8)


def test_a_query_that_is_far_behind_goes_on(tmp_path: Path) -> None:
    """Spark removes the files of old micro-batches, also of the one that comes after the last one that was seen."""
    clock = Clock()
    plan(tmp_path, 0, 1)
    followed = FollowedCheckpoint(str(tmp_path), clock)
    assert followed.bounded(offsets(0), offsets(999)) == offsets(1)
    for batch in range(1, 151):
        plan(tmp_path, batch, batch + 1)
    for batch in range(50):
        (tmp_path / "offsets" / str(batch)).unlink()
        (tmp_path / "commits" / str(batch)).unlink()
    clock.now = 1.0
    assert followed.bounded(offsets(1), offsets(999)) == offsets(151)


def test_a_query_that_is_ahead_waits(tmp_path: Path) -> None:
    """A partition that is ahead of the followed query stays where it is, until that query has passed it."""
    clock = Clock()
    plan(tmp_path, 0, 5, 6)
    followed = FollowedCheckpoint(str(tmp_path), clock)
    assert followed.bounded(offsets(7, 2), offsets(9, 9)) == offsets(7, 6)

    plan(tmp_path, 1, 8, 6)
    clock.now = 1.0
    assert followed.bounded(offsets(7, 6), offsets(9, 9)) == offsets(8, 6)


def test_new_partitions_wait_for_the_followed_query(tmp_path: Path) -> None:
    """A new partition is left out until the followed query has read from it. Lost records are seen nevertheless: an end
    before the start stays."""
    clock = Clock()
    plan(tmp_path, 0, 5)
    followed = FollowedCheckpoint(str(tmp_path), clock)
    assert followed.bounded(offsets(5), offsets(5, 9)) == offsets(5)
    assert followed.bounded(offsets(5), offsets(3)) == offsets(3)

    plan(tmp_path, 1, 5, 4)
    clock.now = 1.0
    assert followed.bounded(offsets(5), offsets(5, 9)) == offsets(5, 4)


def test_a_fixed_end_stays(tmp_path: Path) -> None:
    """A query that ends at the end of now takes no account of what the followed query reads later."""
    clock = Clock()
    plan(tmp_path, 0, 5)
    followed = FollowedCheckpoint(str(tmp_path), clock)
    followed.fix()

    plan(tmp_path, 1, 7)
    clock.now = 1.0

    assert followed.bounded(offsets(0), offsets(9)) == offsets(5)


def test_an_unreadable_checkpoint_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """While the checkpoint can't be read, the query reads nothing more, and one warning says so."""
    clock = Clock()
    (tmp_path / "checkpoint").touch()
    followed = FollowedCheckpoint(str(tmp_path / "checkpoint"), clock)

    with caplog.at_level(logging.WARNING):
        for clock.now in (0.0, 1.0):
            assert followed.bounded(offsets(1), offsets(9)) == offsets(1)

    assert len(caplog.records) == 1
