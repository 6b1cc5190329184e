"""Tests the small text files of a data directory, which have Kafka's format."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.core.log.leader_epoch import EpochEntry
from klamm.protocol.types import ZERO_TOPIC_ID, LeaderEpoch, Offset, PartitionIndex, TopicId, TopicPartition
from klamm.storage.checkpoints import (
    MalformedCheckpoint,
    encode_leader_epochs,
    encode_offsets,
    read_leader_epochs,
    read_offsets,
    read_topic_id,
    write_topic_id,
)

OFFSETS = {
    TopicPartition("a.b_c-d", PartitionIndex(12)): Offset(345),
    TopicPartition("x", PartitionIndex(0)): Offset(0),
}
EPOCHS = [EpochEntry(LeaderEpoch(0), Offset(0)), EpochEntry(LeaderEpoch(7), Offset(2**40))]


def test_offsets_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    """An offset checkpoint has a version, the number of entries, and lines with topic, partition and offset."""
    path = tmp_path / "checkpoint"
    path.write_bytes(encode_offsets(OFFSETS))
    assert path.read_text() == "0\n2\na.b_c-d 12 345\nx 0 0\n"
    assert read_offsets(path) == OFFSETS


def test_leader_epochs_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    """A leader epoch checkpoint has one line per entry with epoch and start offset."""
    path = tmp_path / "checkpoint"
    path.write_bytes(encode_leader_epochs(EPOCHS))
    assert path.read_text() == f"0\n2\n0 0\n7 {2**40}\n"
    assert read_leader_epochs(path) == EPOCHS


def test_no_file_and_an_empty_one_hold_nothing(tmp_path: Path) -> None:
    """A missing or an empty checkpoint has no entries. Kafka creates an empty file first."""
    path = tmp_path / "checkpoint"
    assert read_offsets(path) == {}
    path.touch()
    assert read_leader_epochs(path) == []


@pytest.mark.parametrize(
    "content", ["1\n0\n", "0\n", "0\n2\nx 0 0\n", "0\n1\nx 0\n", "0\n1\nx 0 y\n", "0\n1\nx 0 0 0\n", "?"]
)
def test_another_content_is_refused(tmp_path: Path, content: str) -> None:
    """A malformed checkpoint raises an error that names the file."""
    path = tmp_path / "checkpoint"
    path.write_text(content)
    with pytest.raises(MalformedCheckpoint, match="checkpoint"):
        read_offsets(path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """A checkpoint that is not UTF-8, as after a torn write, raises an error."""
    path = tmp_path / "checkpoint"
    path.write_bytes(b"0\n1\n\xff\xfe 0 0\n")
    with pytest.raises(MalformedCheckpoint):
        read_offsets(path)


def test_a_topic_id_is_written_as_kafka_writes_it(tmp_path: Path) -> None:
    """A topic id is written as URL-safe base64 without padding."""
    topic_id = TopicId(bytes(range(0xF0, 0x100)))
    write_topic_id(tmp_path, topic_id)
    assert (tmp_path / "partition.metadata").read_text() == "version: 0\ntopic_id: 8PHy8_T19vf4-fr7_P3-_w"
    assert read_topic_id(tmp_path) == topic_id


@pytest.mark.parametrize("content", ["", "version: 0", "version: 0\ntopic_id: ?", "version: 0\ntopic_id: AAAA"])
def test_a_topic_id_that_can_not_be_read_is_none(tmp_path: Path, content: str) -> None:
    """An unreadable or missing topic id reads as the zero id, because the metadata store also has the id."""
    assert read_topic_id(tmp_path) == ZERO_TOPIC_ID
    (tmp_path / "partition.metadata").write_text(content)
    assert read_topic_id(tmp_path) == ZERO_TOPIC_ID
