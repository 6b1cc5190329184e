"""What is in a data directory of Apache Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.protocol.types import PartitionIndex, TopicId, TopicPartition
from klamm.storage.checkpoints import write_topic_id
from klamm.storage.kafka_folders import find_folders
from klamm.storage.kafka_ownership import METADATA_FILE, BelongsToKafka, refuse_kafkas
from klamm.storage.metadata_log import METADATA_FOLDER


def _partition(directory: Path, name: str, topic_id: bytes = b"t" * 16, content: bytes = b"") -> Path:
    folder = directory / name
    folder.mkdir()
    write_topic_id(folder, TopicId(topic_id))
    (folder / f"{0:020d}.log").write_bytes(content)
    return folder


def test_partitions_are_found_with_their_topic_ids(tmp_path: Path) -> None:
    """The metadata log is none of them, and what is on its way out or elsewhere is named."""
    _partition(tmp_path, "my-topic-0")
    _partition(tmp_path, "my-topic-1", b"u" * 16)
    for name in (
        METADATA_FOLDER,
        "gone-0.0123456789abcdef0123456789abcdef-delete",
        "moving-0.0123456789abcdef0123456789abcdef-future",
        "lost-0.0123456789abcdef0123456789abcdef-stray",
        "whatever",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "meta.properties").touch()
    found = find_folders(tmp_path)
    assert found.partitions == {
        TopicPartition("my-topic", PartitionIndex(0)): b"t" * 16,
        TopicPartition("my-topic", PartitionIndex(1)): b"u" * 16,
    }
    assert [line.split()[2].split("-")[0] for line in found.unused] == ["gone", "lost", "moving"]
    assert not found.old_format


def test_segments_of_an_old_format_are_found(tmp_path: Path) -> None:
    """Apache Kafka 4 still reads them; klamm does not."""
    _partition(tmp_path, "new-0", content=bytes(16) + b"\x02" + bytes(100))
    old = _partition(tmp_path, "old-0", content=bytes(16) + b"\x01" + bytes(100))
    _partition(tmp_path, "empty-0")
    assert find_folders(tmp_path).old_format == [old / f"{0:020d}.log"]


def test_a_broker_does_not_take_kafkas_directory_for_its_own(tmp_path: Path) -> None:
    """It would set every topic aside; with its own metadata in it, the directory is klamm's."""
    refuse_kafkas(tmp_path)
    (tmp_path / METADATA_FOLDER).mkdir()
    with pytest.raises(BelongsToKafka, match="klamm log import-kafka"):
        refuse_kafkas(tmp_path)
    (tmp_path / METADATA_FILE).touch()
    refuse_kafkas(tmp_path)
