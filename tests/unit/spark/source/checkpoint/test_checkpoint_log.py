"""Tests reading the logs of a checkpoint, as Spark writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.source.checkpoint.checkpoint_log import is_last_finished


def end(offset: int) -> dict[TopicPartition, Offset]:
    return {TopicPartition("t", PartitionIndex(0)): Offset(offset)}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Returns the checkpoint of a query with two sources: two finished micro-batches and one in progress."""
    folder = tmp_path / "a checkpoint"
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    for batch, offset in enumerate((10, 20, 30)):
        lines = ["v1", '{"batchWatermarkMs":0,"conf":{}}', '{"logOffset":3}', json.dumps({"t": {"0": offset}})]
        (folder / "offsets" / str(batch)).write_text("\n".join(lines))
    for batch in (0, 1):
        (folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
        (folder / "commits" / f".{batch}.crc").write_bytes(b"crc\x00")
    return folder


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_only_the_last_finished_batch_is_finished(checkpoint: Path, prefix: str) -> None:
    """Only the last micro-batch in the commit log is finished; a micro-batch in the offset log alone is in progress."""
    assert [is_last_finished(f"{prefix}{checkpoint}", end(offset)) for offset in (10, 20, 30)] == [False, True, False]


def test_numbers_are_counted_as_numbers(checkpoint: Path) -> None:
    """Batch numbers are compared as numbers: batch 10 comes after batch 9."""
    for batch in (9, 10):
        (checkpoint / "commits" / str(batch)).write_text("v1\n{}")
        (checkpoint / "offsets" / str(batch)).write_text("v1\n{}\n" + json.dumps({"t": {"0": batch * 100}}))

    assert is_last_finished(str(checkpoint), end(1000))


def test_a_query_that_has_finished_nothing(tmp_path: Path) -> None:
    """A query without a checkpoint folder has finished no micro-batch."""
    assert not is_last_finished(str(tmp_path / "nowhere"), end(10))


def write(checkpoint: Path, batch: int, *ends: int, finished: bool) -> None:
    """Writes one micro-batch of a query whose sources stop at the given offsets of one topic."""
    lines = ["v1", "{}", *(json.dumps({"t": {"0": offset}}) for offset in ends)]
    (checkpoint / "offsets" / str(batch)).write_text("\n".join(lines))
    if finished:
        (checkpoint / "commits" / str(batch)).write_text("v1\n{}")


def test_another_source_that_was_there_before_finishes_nothing(checkpoint: Path) -> None:
    """In a self-join, an end offset that only the other source has reached does not count as finished."""
    write(checkpoint, 10, 100, 105, finished=True)
    write(checkpoint, 11, 105, 110, finished=False)
    assert not is_last_finished(str(checkpoint), end(105))

    write(checkpoint, 11, 105, 110, finished=True)
    assert is_last_finished(str(checkpoint), end(105))


def test_a_batch_is_finished_when_the_next_was_begun(checkpoint: Path) -> None:
    """A micro-batch is finished if the next one is in the offset log, even if the query stopped before planning the
    next one."""
    write(checkpoint, 10, 100, 105, finished=True)
    write(checkpoint, 11, 110, 115, finished=False)

    assert is_last_finished(str(checkpoint), end(100))


def test_a_batch_that_may_be_the_one_under_way_is_not_called_finished(checkpoint: Path) -> None:
    """A micro-batch is not called finished if the newest one has the same end, since the log does not name the
    source."""
    write(checkpoint, 10, 100, 105, finished=True)
    write(checkpoint, 11, 100, 110, finished=False)

    assert not is_last_finished(str(checkpoint), end(100))
