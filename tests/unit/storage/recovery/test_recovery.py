"""Tests what recovery does with the files that a crash may leave."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.log_folder import NOW_MS, ORDERS, LogFolder, append, batch, found_by_time, read_all, read_bytes

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.types import Millis, Offset, PartitionIndex, TopicPartition


def _filled(path: Path, counts: list[int], *, segment_bytes: int = 700, leader_epochs: int = 3) -> LogFolder:
    folder = LogFolder(path / "data")
    log = folder.create(segment_bytes=segment_bytes, index_interval_bytes=100)
    for number, count in enumerate(counts):
        append(log, batch(count, value=b"%d" % number), leader_epoch=number * leader_epochs // len(counts))
    folder.directory.wait_for_background()
    return folder


def _damage(path: Path, position: int, flip: int = 0x10) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ flip]))


@settings(max_examples=examples(80), deadline=None)
@given(counts=st.lists(st.integers(1, 5), min_size=1, max_size=25), data=st.data())
def test_a_log_cut_anywhere_is_recovered_as_a_prefix(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], data: st.DataObject
) -> None:
    """I8, I1: recovery of a log that is cut anywhere keeps all whole batches before the cut, and appends continue."""
    folder = _filled(tmp_path_factory.mktemp("cut"), counts)
    before = read_bytes(folder.log())
    folder.kill()
    folder.forget_syncs()
    files = folder.log_files()
    index = data.draw(st.integers(0, len(files) - 1))
    size = files[index].stat().st_size
    cut = data.draw(st.integers(0, size))
    junk = data.draw(st.one_of(st.just(b""), st.binary(min_size=1, max_size=100)))
    with files[index].open("r+b") as file:
        file.truncate(cut)
        file.seek(cut)
        file.write(junk)
    folder.start()
    log = folder.log()
    after = read_bytes(log)
    assert not log.is_offline
    kept = sum(path.stat().st_size for path in files[:index]) + cut
    whole = max((position + header.size_bytes for position, header in iterate_batches(before[:kept])), default=0)
    assert after == (before if cut == size and not junk else before[:whole])
    end = log.log_end_offset
    assert append(log).first_offset == end
    folder.restart()
    assert read_bytes(folder.log())[: len(after)] == after
    assert folder.log().log_end_offset == end + 1
    folder.close()


@settings(max_examples=examples(60), deadline=None)
@given(counts=st.lists(st.integers(1, 5), min_size=2, max_size=20), data=st.data())
def test_a_flipped_bit_is_cut_away_above_the_recovery_point_and_reported_below(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], data: st.DataObject
) -> None:
    """I8: recovery cuts a damaged batch above the recovery point. A damaged batch below it takes the log offline."""
    folder = _filled(tmp_path_factory.mktemp("flip"), counts, segment_bytes=10_000, leader_epochs=1)
    before = read_bytes(folder.log())
    folder.kill()
    bounds = [(position, header) for position, header in iterate_batches(before)]
    hit, header = data.draw(st.sampled_from(bounds))
    # A higher leader epoch leaves the batch valid, and no checksum covers the field.
    inside = data.draw(st.integers(0, header.size_bytes - 1).filter(lambda at: not 12 <= at < 16))
    point = data.draw(st.sampled_from([0, *(batch_header.next_offset for _, batch_header in bounds)]))
    _damage(folder.log_files()[0], hit + inside, 1 << data.draw(st.integers(0, 7)))
    folder.forget_syncs(point)
    folder.start()
    log = folder.log()
    if header.base_offset < point:
        assert log.is_offline
        assert folder.log_files()[0].read_bytes()[:hit] == before[:hit]
        assert folder.log_files()[0].stat().st_size == len(before)
    else:
        assert not log.is_offline
        assert read_bytes(log) == before[:hit]
    folder.close()


def test_damage_below_the_recovery_point_names_file_offset_and_position(tmp_path: Path) -> None:
    """Damage below the recovery point makes requests fail with KAFKA_STORAGE_ERROR.

    The reason names file, offset and position, and says what to do.
    """
    folder = _filled(tmp_path, [2, 2, 2], segment_bytes=10_000)
    size = folder.log().size_bytes // 3
    folder.kill()
    _damage(folder.log_files()[0], size + 70)
    folder.forget_syncs(6)
    folder.start()
    log = folder.log()
    assert log.offline_reason is not None
    for part in (str(folder.log_files()[0]), "offset 2", f"position {size}", "CRC", "Bring the file back from a copy"):
        assert part in log.offline_reason
    for refused_call in (
        lambda: append(log),
        lambda: log.read(Offset(0), 100, upper_bound=Offset(6), minimum_one_batch=True),
        lambda: log.delete_old_segments(NOW_MS),
        lambda: found_by_time(log.search_max_timestamp()),
        log.flush,
    ):
        with pytest.raises(KafkaError) as refused:
            refused_call()
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    folder.restart()
    assert folder.log().is_offline, "a clean stop must not hide the damage"
    folder.close()


def test_a_partition_that_comes_back_from_a_copy_is_online_again(tmp_path: Path) -> None:
    """An offline partition is online again after its file is restored, because the start changed nothing."""
    folder = _filled(tmp_path, [2, 2, 2], segment_bytes=10_000)
    before = read_bytes(folder.log())
    folder.kill()
    path = folder.log_files()[0]
    content = path.read_bytes()
    path.write_bytes(content[:100])
    folder.forget_syncs(6)
    folder.start()
    assert folder.log().is_offline
    folder.kill()
    path.write_bytes(content)
    folder.start()
    assert read_bytes(folder.log()) == before
    folder.close()


def test_a_log_that_lacks_its_files_is_offline(tmp_path: Path) -> None:
    """A log without segment files is offline, even after a clean stop, when a start reads very little."""
    folder = _filled(tmp_path, [2, 2, 2])
    folder.directory.close()
    for path in (folder.path / "orders-0").glob("0*"):
        path.unlink()
    folder.start()
    assert "no segment" in (folder.log().offline_reason or "")
    folder.close()


def test_a_log_cut_after_a_clean_stop_is_offline(tmp_path: Path) -> None:
    """A log that is cut after a clean stop, at a batch or within one, ends below its recovery point and is offline."""
    for cut in (0, 10):
        folder = _filled(tmp_path / str(cut), [2, 2, 2], segment_bytes=10_000)
        size = folder.log().size_bytes
        folder.directory.close()
        with folder.log_files()[0].open("r+b") as file:
            file.truncate(size // 3 * 2 - cut)
        folder.start()
        assert folder.log().is_offline
        folder.close()


def test_a_partition_that_is_offline_leaves_the_others_alone(folder: LogFolder) -> None:
    """A damaged file takes only its own partition offline."""
    other = TopicPartition("other", PartitionIndex(3))
    for topic_partition in (ORDERS, other):
        append(folder.create(topic_partition), batch(5))
    folder.directory.close()
    _damage(folder.log_files()[0], 8)
    folder.start()
    assert folder.log().is_offline
    assert len(read_all(folder.log(other))) == 5


def test_segments_behind_a_cut_go_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Recovery removes the segments after a cut, as a gap would break the order of offsets (I1), and logs one line."""
    folder = _filled(tmp_path, [2] * 20)
    files = folder.log_files()
    assert len(files) > 2
    folder.kill()
    _damage(files[1], 70)
    folder.forget_syncs(0)
    with caplog.at_level(logging.INFO):
        folder.start()
    assert folder.log_files() == files[:2]
    assert folder.log().log_end_offset == int(files[1].stem)
    lines = [record.getMessage() for record in caplog.records if "recovered" in record.getMessage()]
    assert len(lines) == 1
    assert "cut away" in lines[0]
    assert str(ORDERS) in lines[0]
    folder.close()


def test_a_segment_that_lost_its_tail_at_a_batch_is_noticed(tmp_path: Path) -> None:
    """Recovery cuts the log where a segment lost whole batches at its end, as a power failure may leave it."""
    folder = _filled(tmp_path, [2] * 20)
    files = folder.log_files()
    before = read_bytes(folder.log())
    folder.kill()
    size = files[0].stat().st_size
    last = list(iterate_batches(files[0].read_bytes()))[-1][0]
    with files[0].open("r+b") as file:
        file.truncate(last)
    folder.forget_syncs(0)
    folder.start()
    assert not folder.log().is_offline
    assert read_bytes(folder.log()) == before[:last]
    assert last < size
    folder.close()


def test_only_what_is_not_synced_is_read(tmp_path: Path) -> None:
    """A start does not read synced segments, so that damage in them is found at the first read."""
    folder = _filled(tmp_path, [2] * 20)
    log = folder.log()
    log.flush()
    folder.directory.checkpoint().result()
    files = folder.log_files()
    folder.kill()
    _damage(files[0], 70)
    folder.start()
    assert not folder.log().is_offline
    assert folder.log().log_end_offset == 40
    folder.close()


def test_leader_epochs_are_read_from_the_batches(tmp_path: Path) -> None:
    """Recovery reads leader epochs from the batches, because the checkpoint may be older than the log."""
    folder = _filled(tmp_path, [1] * 9, leader_epochs=3)
    epochs = folder.log().leader_epochs
    folder.kill()
    (folder.path / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    folder.start()
    assert folder.log().leader_epochs == epochs == ((0, 0), (1, 3), (2, 6))
    folder.close()


def test_recovered_leader_epochs_are_there_after_a_clean_stop(tmp_path: Path) -> None:
    """Leader epochs that recovery read from the batches are written when a log that nothing was appended to closes."""
    folder = _filled(tmp_path, [1] * 9, leader_epochs=3)
    epochs = folder.log().leader_epochs
    folder.kill()
    folder.forget_syncs()
    (folder.path / "orders-0" / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    folder.start()
    folder.restart()
    assert folder.log().leader_epochs == epochs
    folder.close()


def test_an_unreadable_epoch_checkpoint_is_made_up_for(tmp_path: Path) -> None:
    """An unreadable leader epoch checkpoint is rebuilt from all batches, even after a clean stop."""
    folder = _filled(tmp_path, [1] * 9, leader_epochs=3)
    epochs = folder.log().leader_epochs
    folder.directory.close()
    (folder.path / "orders-0" / "leader-epoch-checkpoint").write_text("0\n7\n0 0\n")
    folder.start()
    assert folder.log().leader_epochs == epochs
    folder.close()


def test_producers_are_read_from_snapshot_and_batches(folder: LogFolder) -> None:
    """I10: recovery reads producers from the snapshot and the batches, and recognizes the last batches as retries."""
    log = folder.create()
    append(log, batch(sequence=0, producer_id=1, epoch=0))
    append(log, batch(sequence=0, producer_id=2, epoch=3))
    log.roll(NOW_MS)
    retries = [batch(2, sequence=1 + 2 * number, producer_id=1, epoch=0) for number in range(4)]
    for records in retries:
        append(log, records)
    folder.crash()
    log = folder.log()
    assert [append(log, records).first_offset for records in retries] == [2, 4, 6, 8]
    with pytest.raises(KafkaError):
        append(log, batch(sequence=1, producer_id=2, epoch=2))


@pytest.mark.parametrize("is_killed", [True, False])
def test_batches_before_the_last_snapshot_are_recognized_as_retries(folder: LogFolder, *, is_killed: bool) -> None:
    """I10: after a start, retries of a producer's last five batches get the offsets of these batches, also if a segment
    was rolled between them, which leaves a snapshot with only the last one."""
    log = folder.create(segment_bytes=300, index_interval_bytes=100)
    retries = [batch(2, sequence=2 * number, producer_id=1, epoch=0) for number in range(8)]
    for records in retries:
        append(log, records)
    assert len(folder.log_files()) > 2
    if is_killed:
        folder.kill()
        folder.start()
    else:
        folder.restart()
    log = folder.log()
    assert [append(log, records).first_offset for records in retries[3:]] == [6, 8, 10, 12, 14]
    with pytest.raises(KafkaError):
        append(log, retries[2])
    assert append(log, batch(2, sequence=16, producer_id=1, epoch=0)).first_offset == 16


def test_a_damaged_snapshot_is_passed_over(folder: LogFolder) -> None:
    """Recovery skips a damaged snapshot, and uses an earlier one or the whole log."""
    log = folder.create()
    append(log, batch(3, sequence=0, producer_id=1, epoch=0))
    log.roll(NOW_MS)
    append(log, batch(sequence=3, producer_id=1, epoch=0))
    folder.kill()
    _damage(folder.path / "orders-0" / f"{3:020d}.snapshot", 12)
    folder.start()
    assert append(folder.log(), batch(3, sequence=0, producer_id=1, epoch=0)).first_offset == 0


def test_damage_that_hides_producers_takes_the_partition_offline(folder: LogFolder) -> None:
    """I8, I10: a damaged batch takes the partition offline if there is no readable snapshot.

    Without the batch's producer, a retry would be written twice. With the original file, retries are recognized.
    """
    log = folder.create()
    append(log, batch(3, sequence=0, producer_id=1, epoch=0))
    log.roll(NOW_MS)
    append(log, batch(sequence=3, producer_id=1, epoch=0))
    folder.directory.close()
    for snapshot in folder.path.glob("orders-0/*.snapshot"):
        _damage(snapshot, 12)
    damaged = folder.path / "orders-0" / f"{0:020d}.log"
    _damage(damaged, 16)
    folder.start()
    assert f"{damaged} is damaged at offset 0, position 0" in (folder.log().offline_reason or "")
    with pytest.raises(KafkaError) as refused:
        append(folder.log(), batch(3, sequence=0, producer_id=1, epoch=0))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    folder.directory.close()
    _damage(damaged, 16)
    folder.start()
    assert append(folder.log(), batch(3, sequence=0, producer_id=1, epoch=0)).first_offset == 0


def test_a_restart_removes_what_an_earlier_run_meant_to(folder: LogFolder) -> None:
    """A start removes deleted segments, indexes without a log, temporary files, and snapshots above the log end."""
    append(folder.create())
    partition = folder.path / "orders-0"
    names = {path.name for path in partition.iterdir()}
    for name in (
        "00000000000000000000.log.deleted",
        "00000000000000000007.index",
        "partition.metadata.tmp",
        "00000000000000000099.snapshot",
    ):
        (partition / name).write_bytes(b"")
    folder.crash()
    assert {path.name for path in partition.iterdir()} - {f"{1:020d}.snapshot"} == names


def test_a_clean_stop_is_believed_once(folder: LogFolder) -> None:
    """A start removes the mark of a clean stop, so that the mark counts for one start only."""
    append(folder.create())
    folder.directory.close()
    mark = folder.path / ".kafka_cleanshutdown"
    assert mark.read_text() == '{"version":0,"brokerEpoch":-1}'
    folder.start()
    assert not mark.exists()
    assert folder.log().recovery_point == 1


def test_recovered_indexes_are_those_that_were_built_on_the_way(tmp_path: Path) -> None:
    """Recovery builds the same indexes as appends."""
    folder = _filled(tmp_path, [1, 3, 2, 5, 4, 1, 1, 6] * 3)
    folder.restart()
    folder.directory.close()
    names = sorted(path for path in (folder.path / "orders-0").iterdir() if path.suffix in (".index", ".timeindex"))
    before = {path.name: path.read_bytes() for path in names}
    (folder.path / ".kafka_cleanshutdown").unlink()
    folder.forget_syncs(0)
    for path in names:
        path.write_bytes(b"")
    folder.start()
    folder.directory.close()
    assert {path.name: path.read_bytes() for path in names} == before


def test_a_new_segment_without_the_end_of_the_old_one_goes(tmp_path: Path) -> None:
    """If a power failure took the end of a segment, recovery removes the next segment, and the log continues in the old
    one."""
    for keeps_content in (False, True):
        folder = _filled(tmp_path / str(keeps_content), [1] * 12, segment_bytes=400, leader_epochs=1)
        folder.kill()
        folder.forget_syncs()
        old, new = folder.log_files()[-2:]
        os.truncate(old, old.stat().st_size - 1)
        if not keeps_content:
            os.truncate(new, 0)
        folder.start()
        log = folder.log()
        assert folder.log_files()[-1] == old
        end = log.log_end_offset
        assert [record.offset for record in read_all(log)] == list(range(end))
        assert append(log).first_offset == end
        folder.crash()
        assert folder.log().log_end_offset == end + 1
        folder.close()


@pytest.mark.parametrize("content", [b"", batch(1, value=b"old")], ids=["empty", "of records"])
def test_an_old_segment_within_the_offsets_of_another_one_goes(tmp_path: Path, content: bytes) -> None:
    """I8: a segment file that begins below the end of the segment before it is removed, and no record is hidden.

    A power failure may bring back the name of a segment that was truncated away, although the segment before it has
    grown past it since.
    """
    folder = LogFolder(tmp_path / "data")
    log = folder.create()
    for number in range(3):
        append(log, batch(2, value=b"%d" % number))
    folder.kill()
    folder.forget_syncs()
    folder.log_files()[0].with_name(f"{2:020d}.log").write_bytes(content)
    folder.start()
    log = folder.log()
    append(log, batch(1, value=b"new"))
    expected = [b"0", b"0", b"1", b"1", b"2", b"2", b"new"]
    assert [record.value for record in read_all(log)] == expected
    assert [record.value for record in read_all(log, 4)] == expected[4:]
    folder.close()


def test_a_start_forgets_idle_producers(folder: LogFolder) -> None:
    """A start after producer.id.expiration.ms, a day by default, leaves out the idle producers of the snapshot."""
    append(folder.create(retention_ms=-1), batch(sequence=0, producer_id=1, epoch=0))
    folder.advance(86_400_000)
    folder.restart()
    assert not list(folder.log().producers.active())


def test_a_producer_that_was_idle_before_its_last_batch(folder: LogFolder) -> None:
    """I10: the snapshot says that the producer was idle for too long, and the log that it has written since. A batch
    from before, of which the answer was lost, is still a duplicate."""
    log = folder.create(retention_ms=-1)
    first = batch(sequence=0, producer_id=1, epoch=0)
    append(log, first)
    log.roll(NOW_MS)
    log.flush()
    folder.advance(86_400_000)
    append(log, batch(sequence=1, producer_id=1, epoch=0, timestamp_ms=folder.now_ms), now_ms=folder.now_ms)
    folder.crash()
    again = append(folder.log(), first, now_ms=folder.now_ms)
    assert (again.first_offset, again.is_duplicate) == (0, True)


def test_a_time_index_of_an_earlier_moment(folder: LogFolder) -> None:
    """I9: a power failure takes the last bytes of the time index, and not those of the offset index. The last batch
    that both should have is older than the largest timestamp, which a search finds nevertheless."""
    log = folder.create(index_interval_bytes=0)
    for milliseconds in (0, 10, 20, 0):
        append(log, batch(timestamp_ms=NOW_MS + milliseconds))
    folder.restart()  # a stop in order writes the indexes
    append(folder.log(), batch(timestamp_ms=NOW_MS + 20))
    folder.kill()
    path = folder.log_files()[0].with_suffix(".timeindex")
    folder.forget_syncs(above=4)
    path.write_bytes(path.read_bytes()[:12])
    folder.start()
    assert found_by_time(folder.log().search_timestamp(Millis(NOW_MS + 20))) == (NOW_MS + 20, 2, 0)
