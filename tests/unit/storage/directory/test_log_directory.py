"""Tests a data directory: its partitions, checkpoints and metadata files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.support.log_folder import NOW_MS, ORDERS, TOPIC_ID, LogFolder, append, batch, read_all

from klamm.protocol.errors import KafkaError
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, TopicId, TopicPartition
from klamm.storage.directory.log_directory import LogDirectory
from klamm.storage.directory.meta_properties import InconsistentDataDirectory

OTHER_ID = TopicId(bytes(reversed(range(16))))


def _now() -> Millis:
    return NOW_MS


def test_a_folder_of_another_cluster_is_refused(folder: LogFolder) -> None:
    """A data directory of another cluster is refused."""
    assert folder.directory.owner.cluster_id is None
    folder.directory.owner.write_meta_properties(cluster_id="c1", node_id=1, broker_epoch=7)
    folder.restart()
    assert folder.directory.owner.cluster_id == "c1"
    with pytest.raises(InconsistentDataDirectory):
        folder.directory.owner.write_meta_properties(cluster_id="c2", node_id=1)


def test_the_mark_of_a_clean_stop_has_the_broker_epoch(folder: LogFolder) -> None:
    """The mark of a clean stop has the broker epoch, which KIP-966 reads."""
    folder.directory.owner.write_meta_properties(cluster_id="c1", node_id=1, broker_epoch=7)
    folder.directory.close()
    assert (folder.path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":7}'
    folder.start()


def test_a_start_that_is_refused_leaves_the_directory_as_it_was(folder: LogFolder) -> None:
    """A directory that is locked and closed, without being opened, keeps its checkpoints and gets no mark of a clean
    stop: after an unclean one, the next start would trust torn files."""
    append(folder.create(), batch(2))
    folder.directory.checkpoint()
    folder.directory.close(clean=False)
    before = {path.name: path.read_bytes() for path in folder.path.iterdir() if path.is_file()}
    assert "recovery-point-offset-checkpoint" in before
    locked = LogDirectory(folder.path, clock=_now)
    locked.owner.lock()
    locked.close()
    assert {path.name: path.read_bytes() for path in folder.path.iterdir() if path.is_file()} == before
    folder.start()


def test_partitions_are_found_again(folder: LogFolder) -> None:
    """A restart finds each partition with its topic id, records and high watermark, whatever the topic's name."""
    names = [TopicPartition(topic, PartitionIndex(3)) for topic in ("a", "a-1", "with.dots_and-dashes")]
    for topic_partition in names:
        append(folder.create(topic_partition), batch(2))
    folder.restart()
    assert set(folder.directory.logs) == set(names)
    for topic_partition in names:
        log = folder.log(topic_partition)
        assert log.topic_id == TOPIC_ID
        assert log.high_watermark == 2
        assert len(read_all(log)) == 2


def test_other_folders_and_files_are_left_alone(folder: LogFolder) -> None:
    """Folders and files whose names are no partition names are left alone."""
    for name in ("lost+found", "no_number-", "topic-x", "t-1.abc-stray"):
        (folder.path / name).mkdir()
    (folder.path / "file-0").write_text("")
    folder.restart()
    assert not folder.directory.logs
    assert (folder.path / "file-0").exists()


def test_checkpoints_are_written_in_kafkas_format(folder: LogFolder) -> None:
    """The checkpoints of recovery points, log start offsets and high watermarks have Kafka's format.

    Log start offsets are written even if the files' names show them, because the files may be lost.
    """
    log = folder.create()
    append(log, batch(5))
    log.roll(NOW_MS)
    append(folder.create(TopicPartition("idle", PartitionIndex(0))))
    log.delete_records_before(Offset(2))
    folder.directory.wait_for_background()
    folder.directory.checkpoint().result()
    read = {path.name: path.read_text() for path in folder.path.glob("*-checkpoint")}
    assert read == {
        "recovery-point-offset-checkpoint": "0\n2\norders 0 5\nidle 0 0\n",
        "log-start-offset-checkpoint": "0\n2\norders 0 2\nidle 0 0\n",
        "replication-offset-checkpoint": "0\n2\norders 0 5\nidle 0 1\n",
    }


def test_a_malformed_checkpoint_only_costs_time(folder: LogFolder) -> None:
    """A malformed recovery point checkpoint loses no record: the start reads the whole log."""
    append(folder.create(), batch(5))
    folder.kill()
    (folder.path / "recovery-point-offset-checkpoint").write_text("nonsense")
    folder.start()
    assert len(read_all(folder.log())) == 5


def test_a_deleted_partition_is_gone_at_once_and_its_files_later(folder: LogFolder) -> None:
    """A deleted partition is gone at once and its files later; a topic with the same name may follow immediately."""
    old = folder.create()
    append(old, batch(9))
    old.flush()
    folder.directory.checkpoint().result()
    folder.directory.delete(ORDERS)
    assert folder.directory.get(ORDERS) is None
    assert old.is_offline
    retired = [path for path in folder.path.iterdir() if path.name.endswith("-delete")]
    assert len(retired) == 1
    assert retired[0].name.startswith("orders-0.")
    append(folder.create())
    folder.directory.housekeep(Millis(NOW_MS + 60_000))
    folder.directory.wait_for_background()
    assert not retired[0].exists()
    folder.crash()
    assert not folder.log().is_offline, "the recovery point of the topic that was deleted says nothing of this one"
    assert len(read_all(folder.log())) == 1


@pytest.mark.parametrize("logs", [1, 600])
def test_the_start_of_a_deleted_log_says_nothing_of_the_next_of_that_name(folder: LogFolder, logs: int) -> None:
    """The log start offset of a deleted topic does not apply to a new topic with the same name.

    This holds if the checkpoint was already written, and if it is being gathered while the topic is created again.
    """
    old = folder.create()
    append(old, batch(9))
    old.delete_records_before(Offset(5))
    if logs == 1:
        folder.directory.checkpoint().result()
        folder.directory.delete(ORDERS)
        append(folder.create(), batch(3))
    else:
        for index in range(1, logs):
            folder.create(TopicPartition("others", PartitionIndex(index)))
        steps = folder.directory.checkpoint_in_steps()
        next(steps)
        folder.directory.delete(ORDERS)
        append(folder.create(), batch(3))
        assert list(steps) == []
    folder.directory.wait_for_background()
    folder.crash()
    assert folder.log().log_start_offset == 0
    assert len(read_all(folder.log())) == 3


def test_a_restart_finishes_a_deletion(folder: LogFolder) -> None:
    """A restart finishes a deletion, because the folder's name already has the suffix."""
    append(folder.create())
    folder.directory.delete(ORDERS)
    folder.crash()
    assert not folder.directory.logs
    folder.directory.housekeep(NOW_MS)
    folder.directory.wait_for_background()
    assert not [path for path in folder.path.iterdir() if path.is_dir()]


def test_a_name_that_is_too_long_is_cut(folder: LogFolder) -> None:
    """The folder name of a deleted topic is cut to 255 characters; a topic name may have 249."""
    long = TopicPartition("t" * 249, PartitionIndex(9))
    folder.create(long)
    folder.directory.delete(long)
    assert [len(path.name) for path in folder.path.iterdir() if path.is_dir()] == [255]


def test_folders_of_partitions_that_are_not_assigned_are_set_aside(folder: LogFolder) -> None:
    """Folders of topics that no longer exist, and of replicas that have moved away, are set aside, so that a new topic
    or a new replica of that name does not get their records."""
    gone = TopicPartition("gone", PartitionIndex(0))
    for topic_partition in (ORDERS, gone):
        append(folder.create(topic_partition))
    folder.restart()
    assert folder.directory.set_strays_aside({ORDERS: TOPIC_ID}) != []
    assert set(folder.directory.logs) == {ORDERS}
    assert len(folder.directory.set_strays_aside({ORDERS: OTHER_ID})) == 1
    append(folder.create())
    folder.restart()
    assert set(folder.directory.logs) == {ORDERS}
    assert len([path for path in folder.path.iterdir() if path.name.endswith("-stray")]) == 2


def test_producers_are_forgotten_in_time(folder: LogFolder) -> None:
    """An idle producer is removed after producer.id.expiration.ms, a day by default."""
    log = folder.create(retention_ms=-1)
    append(log, batch(sequence=0, producer_id=1, epoch=0))
    folder.directory.housekeep(Millis(NOW_MS + 86_399_999))
    assert len(list(log.producers.active())) == 1
    folder.directory.housekeep(Millis(NOW_MS + 86_400_000))
    assert not list(log.producers.active())


def test_logs_may_come_and_go_between_two_steps_of_housekeeping(folder: LogFolder) -> None:
    """Housekeeping skips a log that is deleted between two steps, and still processes the others."""
    logs = [folder.create(TopicPartition("orders", PartitionIndex(index)), retention_ms=-1) for index in range(3)]
    for log in logs:
        append(log, batch(sequence=0, producer_id=1, epoch=0))
    steps = folder.directory.housekeep_in_steps(Millis(NOW_MS + 86_400_000))
    next(steps)
    assert [len(list(log.producers.active())) for log in logs] == [0, 1, 1]
    folder.directory.delete(logs[1].topic_partition)
    assert len(list(steps)) == 1
    assert not list(logs[2].producers.active())


def test_a_new_configuration_holds_from_the_next_append_on(folder: LogFolder) -> None:
    """A new configuration applies from the next append on, without a restart."""
    log = folder.create()
    append(log)
    log.update_config(replace(log.config, segment_bytes=len(batch())))
    append(log)
    assert log.segment_count == 2


def test_closing_twice_is_harmless(tmp_path: Path) -> None:
    """A data directory can be closed twice, and without having been opened."""
    folder = LogFolder(tmp_path / "data")
    folder.close()
    folder.close()
    LogDirectory(tmp_path / "never", clock=_now).close()


def test_many_partitions_are_closed_and_opened(tmp_path: Path) -> None:
    """A directory with more partitions than file descriptors can be closed and opened."""
    folder = LogFolder(tmp_path / "data", open_files=10)
    names = [TopicPartition("many", PartitionIndex(index)) for index in range(150)]
    for topic_partition in names:
        append(folder.create(topic_partition))
    folder.restart()
    assert (folder.path / ".kafka_cleanshutdown").exists() is False
    assert all(folder.log(topic_partition).recovery_point == 1 for topic_partition in names)
    folder.close()


def test_a_folder_that_is_there_already_keeps_its_files(folder: LogFolder) -> None:
    """If a folder of the name is there, because it could not be set aside for example, no log is created, and nothing
    in the folder is removed."""
    records = folder.path / str(ORDERS) / "00000000000000000000.log"
    records.parent.mkdir()
    records.write_bytes(b"records")

    with pytest.raises(KafkaError, match="can't be made"):
        folder.create()

    assert records.read_bytes() == b"records"


def test_a_sync_of_a_log_that_is_being_deleted_is_no_failure_of_the_disk(folder: LogFolder) -> None:
    """A sync on another thread that finds the folder of a deleted log renamed does not count as a failed one: after a
    kill, the broker would count as one that has lost records."""
    log = folder.create()
    log.assign_leader_epoch(LeaderEpoch(3))
    append(log, leader_epoch=3)
    failed: list[TopicPartition] = []
    folder.directory.on_offline(failed.append)
    flush = log.durability.begin_flush(NOW_MS)
    assert flush is not None
    rename = Path.rename

    def rename_while_syncing(path: Path, target: Path) -> Path:
        renamed = rename(path, target)
        flush.run()
        return renamed

    with patch.object(Path, "rename", rename_while_syncing), patch.object(folder.directory.owner.run, "distrust") as it:
        folder.directory.delete(ORDERS)
    assert not failed
    it.assert_not_called()
