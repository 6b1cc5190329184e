"""Tests what klamm finds in a data directory of Apache Kafka."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, read_all

from klamm.exchange.data_directory_owner import BelongsToKafka, refuse_kafka_directory
from klamm.exchange.kafka_folders import find_folders, note_gaps
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.types import PartitionIndex, TopicId, TopicPartition
from klamm.storage.checkpoints import write_topic_id
from klamm.storage.directory.metadata_files import METADATA_FILE, METADATA_FOLDER


def _partition(directory: Path, name: str, topic_id: bytes = b"t" * 16, content: bytes = b"") -> Path:
    folder = directory / name
    folder.mkdir()
    write_topic_id(folder, TopicId(topic_id))
    (folder / f"{0:020d}.log").write_bytes(content)
    return folder


def test_partitions_are_found_with_their_topic_ids(tmp_path: Path) -> None:
    """Partition folders are found with their topic ids, and deleted, moving and stray folders are named as unused.

    The metadata log is not a partition.
    """
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
    """Segments of an old record format are found; Apache Kafka 4 still reads them, but klamm does not."""
    _partition(tmp_path, "new-0", content=bytes(16) + b"\x02" + bytes(100))
    old = _partition(tmp_path, "old-0", content=bytes(16) + b"\x01" + bytes(100))
    _partition(tmp_path, "empty-0")
    assert find_folders(tmp_path).old_format == [old / f"{0:020d}.log"]


def test_a_broker_does_not_take_kafkas_directory_for_its_own(tmp_path: Path) -> None:
    """A broker refuses Kafka's data directory, because it would set every topic aside.

    A directory that has klamm's own metadata is accepted.
    """
    refuse_kafka_directory(tmp_path)
    (tmp_path / METADATA_FOLDER).mkdir()
    with pytest.raises(BelongsToKafka, match="klamm log import-kafka"):
        refuse_kafka_directory(tmp_path)
    (tmp_path / METADATA_FILE).touch()
    refuse_kafka_directory(tmp_path)


def test_gaps_that_kafkas_cleaner_left_are_noted(tmp_path: Path) -> None:
    """A gap that Kafka's cleaner left, between segments or as an empty segment, is noted, so that a start accepts it.

    A gap without a note takes the partition offline.
    """
    folder = LogFolder(tmp_path / "data")
    log = folder.create(cleanup_policy=frozenset({"compact"}))
    for _ in range(4):
        append(log, batch(2))
        append(log, batch(3))
        log.roll(NOW_MS)
    folder.directory.close()
    first, second, third, *_ = folder.log_files()
    _, second_batch = (position for position, _ in iterate_batches(first.read_bytes()))
    os.truncate(first, second_batch)
    os.truncate(second, 0)
    note_gaps(first.parent)
    assert sorted(path.name for path in first.parent.glob("*.gap")) == [f"{end:020d}.gap" for end in (5, 10)]
    for start in (folder.start, folder.crash, folder.restart):
        start()
        assert folder.log().offline_reason is None
        assert [record.offset for record in read_all(folder.log())] == [0, 1, *range(10, 20)]
    folder.directory.close()
    os.truncate(third, 0)
    folder.start()
    assert folder.log().is_offline
    folder.close()
