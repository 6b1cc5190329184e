"""Tests what is read from a query's checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from klamm.pipelines.run.checkpoint_reader import end_of_finished, is_settled, read_state, unfinished_batch
from klamm.protocol.types import PartitionIndex, TopicPartition


def tp(partition: int) -> TopicPartition:
    return TopicPartition("t", PartitionIndex(partition))


def plan(checkpoint: Path, batch: int, *sources: dict[str, dict[str, int]], finished: bool = True) -> None:
    """Writes the files of a micro-batch, as Spark does."""
    for folder in ("offsets", "commits"):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
    lines = ["v1", '{"batchWatermarkMs":0}', *(json.dumps(source) for source in sources)]
    (checkpoint / "offsets" / str(batch)).write_text("\n".join(lines))
    (checkpoint / "offsets" / f".{batch}.crc").write_text("")
    if finished:
        (checkpoint / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


def test_an_empty_checkpoint(tmp_path: Path) -> None:
    """A query that never ran has no micro-batches and no position."""
    location = str(tmp_path / "none")

    assert read_state(location) == (None, None)
    assert (end_of_finished(location), unfinished_batch(location), is_settled(location)) == ({}, None, True)


def test_the_position_of_a_query(tmp_path: Path) -> None:
    """The position is the end of the last finished micro-batch, not of a planned one."""
    plan(tmp_path, 0, {"t": {"0": 4}})
    plan(tmp_path, 1, {"t": {"0": 9, "1": 2}}, finished=False)

    assert read_state(str(tmp_path)) == (1, 0)
    assert end_of_finished(f"file://{tmp_path}") == {tp(0): 4}
    assert not is_settled(str(tmp_path))


def test_the_failing_micro_batch(tmp_path: Path) -> None:
    """The offsets of an unfinished micro-batch lie between its end and the end of the one before."""
    plan(tmp_path, 0, {"t": {"0": 4, "1": 2}}, {"other": {"0": 1}})
    plan(tmp_path, 1, {"t": {"0": 9, "1": 2}}, {"other": {"0": 3}}, finished=False)

    batch = unfinished_batch(str(tmp_path))

    assert batch is not None
    assert batch.batch_id == 1
    assert batch.ranges == {tp(0): (4, 9), TopicPartition("other", PartitionIndex(0)): (1, 3)}


def test_the_first_micro_batch_begins_at_the_initial_offsets(tmp_path: Path) -> None:
    """The first micro-batch begins where the source wrote that the query starts."""
    plan(tmp_path, 0, {"t": {"0": 9}}, finished=False)
    (tmp_path / "sources" / "0").mkdir(parents=True)
    (tmp_path / "sources" / "0" / "0").write_bytes(b'\0v1\n{"t":{"0":7}}')

    batch = unfinished_batch(str(tmp_path))

    assert batch is not None
    assert batch.ranges == {tp(0): (7, 9)}


def test_a_source_of_another_kind(tmp_path: Path) -> None:
    """The offsets of a source that is no topic are left out."""
    plan(tmp_path, 0, {"t": {"0": 9}})
    (tmp_path / "offsets" / "0").write_text('v1\n{}\n{"logOffset":3}\n17\n{"t":{"0":9}}')

    assert end_of_finished(str(tmp_path)) == {tp(0): 9}
