"""Tests the start offsets of a query, kept in a file of its checkpoint."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from klamm.protocol.types import Offset, PartitionIndex, TopicPartition
from klamm.spark.query_checkpoints import SourceCheckpoint
from klamm.spark.source.checkpoint.initial_offsets import InitialOffsets
from klamm.spark.source.offsets import PartitionOffsets

START: PartitionOffsets = {
    TopicPartition("t", PartitionIndex(10)): Offset(5),
    TopicPartition("t", PartitionIndex(9)): Offset(0),
}


def never() -> PartitionOffsets:
    raise AssertionError("it was known")


@pytest.mark.parametrize("scheme", ["", "file:"])
def test_the_start_is_looked_up_once(tmp_path: Path, scheme: str) -> None:
    """The start is looked up once and kept in the form and place of Spark's own source; no other file is left in the
    folder."""
    offsets = InitialOffsets(lambda: [SourceCheckpoint(f"{scheme}{tmp_path}", 1)])

    assert offsets.kept(lambda: START) == START
    assert offsets.kept(never) == START
    assert (tmp_path / "sources/1/0").read_bytes() == b'\0v1\n{"t":{"9":0,"10":5}}'
    assert [path.name for path in (tmp_path / "sources/1").iterdir()] == ["0"]


def test_sources_of_a_query_don_t_share_a_start(tmp_path: Path) -> None:
    """Each source of a query has its own folder, so that two sources do not share a start."""
    InitialOffsets(lambda: [SourceCheckpoint(str(tmp_path), 0)]).kept(lambda: START)

    assert InitialOffsets(lambda: [SourceCheckpoint(str(tmp_path), 1)]).kept(dict) == {}


def test_without_a_checkpoint_nothing_is_kept(tmp_path: Path) -> None:
    """No file is written if the checkpoint is unknown, or if two queries look alike."""
    both = [SourceCheckpoint(str(tmp_path / name), 0) for name in ("a", "b")]

    assert InitialOffsets().kept(lambda: START) == START
    assert InitialOffsets(lambda: both).kept(lambda: START) == START
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"v1\n{}", b"\0v2\n{}", b"\0v1\n{", b'\0v1\n{"t":7}'])
def test_a_file_of_another_form_is_left_alone(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """A file of another form is left unchanged and causes a warning."""
    path = tmp_path / "sources/0/0"
    path.parent.mkdir(parents=True)
    path.write_bytes(content)

    with caplog.at_level(logging.WARNING, "klamm.spark"):
        assert InitialOffsets(lambda: [SourceCheckpoint(str(tmp_path), 0)]).kept(lambda: START) == START
    assert path.read_bytes() == content
    assert str(path) in caplog.text


def test_a_checkpoint_that_can_not_be_written_is_no_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If the checkpoint can't be written, the query warns and continues, as in a session that knows no checkpoints."""
    (tmp_path / "sources").symlink_to("/proc/nowhere")

    with caplog.at_level(logging.WARNING, "klamm.spark"):
        assert InitialOffsets(lambda: [SourceCheckpoint(str(tmp_path), 0)]).kept(lambda: START) == START
    assert "can't be written" in caplog.text
