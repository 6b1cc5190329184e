"""Tests the log of a follower: it holds the leader's bytes, and truncates where it diverges."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Lock, Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.failing_calls import failing
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, read_bytes, sent

from klamm.core.log.producer_entry import ProducerSnapshotEntry
from klamm.core.log.transaction_verification import UNVERIFIED
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.types import LeaderEpoch, Offset, ProducerEpoch, ProducerId
from klamm.storage.log import log_producers
from klamm.storage.log.log import Log
from klamm.storage.log.producer_snapshot import write_snapshot


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[tuple[LogFolder, LogFolder]]:
    pair = LogFolder(tmp_path / "leader"), LogFolder(tmp_path / "follower")
    for folder in pair:
        folder.create(segment_bytes=600, index_interval_bytes=100)
    yield pair
    for folder in pair:
        folder.close()


def copy(leader: Log, follower: Log, *, max_bytes: int = 1_000_000) -> None:
    """Fetches until the follower has everything, as a fetcher does."""
    while follower.log_end_offset < leader.log_end_offset:
        records = leader.read(
            follower.log_end_offset, max_bytes, upper_bound=leader.log_end_offset, minimum_one_batch=True
        )
        follower.following.append(records, NOW_MS)


def facts(log: Log) -> object:
    return (
        read_bytes(log, log.log_start_offset),
        log.log_end_offset,
        log.leader_epochs,
        sorted((producer_id, entry.last_sequence, entry.epoch) for producer_id, entry in log.producers.active()),
        log.transactions.first_undecided_offset,
        log.aborted_transactions(log.log_start_offset, 1_000_000),
    )


def end_transaction(log: Log, producer_id: int, *, is_commit: bool) -> None:
    marker = EndTransactionMarker(is_commit, 0)
    records = encode_end_transaction_marker(
        marker, producer_id=ProducerId(producer_id), producer_epoch=ProducerEpoch(0), timestamp_ms=NOW_MS
    )
    log.appender.append_as_leader(records, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, from_client=False)


def write(log: Log, producer_id: int, sequence: int) -> None:
    guard = log.transactions.begin_verification(
        ProducerId(producer_id), ProducerEpoch(0), sequence, adds_partitions=False, now_ms=NOW_MS
    )
    records = batch(2, producer_id=producer_id, epoch=0, sequence=sequence, is_transactional=True)
    log.appender.append_as_leader(
        records, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, verification_guard=guard or UNVERIFIED
    )


@pytest.mark.parametrize("max_bytes", [1, 200, 10_000])
def test_follower_holds_the_same_bytes_epochs_and_producers(
    folders: tuple[LogFolder, LogFolder], max_bytes: int
) -> None:
    """I2: after the copy, both logs have the same bytes, leader epochs, producers and transactions, also after a
    restart and a crash of the follower."""
    leader, follower = (folder.log() for folder in folders)
    for epoch in (0, 0, 2, 5):
        append(leader, batch(3, b"x" * 50), leader_epoch=epoch)
    for sequence in range(0, 8, 2):
        append(leader, batch(2, producer_id=4, epoch=0, sequence=sequence), leader_epoch=5)
    copy(leader, follower, max_bytes=max_bytes)
    assert facts(follower) == facts(leader)
    assert follower.segment_count == leader.segment_count > 2
    folders[1].restart()
    assert facts(folders[1].log()) == facts(leader)
    folders[1].crash()
    assert facts(folders[1].log()) == facts(leader)


def test_markers_end_transactions_on_the_follower(folders: tuple[LogFolder, LogFolder]) -> None:
    """The follower knows open and aborted transactions as the leader does, so it can lead at once."""
    leader, follower = (folder.log() for folder in folders)
    for producer_id, is_commit in ((1, True), (2, False)):
        write(leader, producer_id, 0)
        end_transaction(leader, producer_id, is_commit=is_commit)
    write(leader, 3, 0)
    copy(leader, follower)
    follower.advance_high_watermark(follower.log_end_offset)
    leader.advance_high_watermark(leader.log_end_offset)
    assert facts(follower) == facts(leader)
    assert follower.last_stable_offset == leader.last_stable_offset < leader.log_end_offset


def test_high_watermark_is_not_moved_by_an_append(folders: tuple[LogFolder, LogFolder]) -> None:
    """Only the leader knows what is committed."""
    leader, follower = (folder.log() for folder in folders)
    append(leader)
    copy(leader, follower)
    assert follower.high_watermark == 0


def test_partial_batch_at_the_end_is_ignored(folders: tuple[LogFolder, LogFolder]) -> None:
    """The next fetch brings the whole batch."""
    leader, follower = (folder.log() for folder in folders)
    for _ in range(2):
        append(leader)
    records = read_bytes(leader)
    assert follower.following.append(records[:-5], NOW_MS) == len(records) // 2
    assert follower.log_end_offset == 1


def test_number_of_batches_of_a_call_is_limited(folders: tuple[LogFolder, LogFolder]) -> None:
    """So no call takes long; the caller passes the rest again."""
    leader, follower = (folder.log() for folder in folders)
    for _ in range(5):
        append(leader)
    records = memoryview(read_bytes(leader))
    done = follower.following.append(records, NOW_MS, most_batches=2)
    assert follower.log_end_offset == 2
    follower.following.append(records[done:], NOW_MS, most_batches=100)
    assert facts(follower) == facts(leader)


def test_damaged_batch_is_refused_and_those_before_it_stay(folders: tuple[LogFolder, LogFolder]) -> None:
    """I1: a batch with a wrong CRC does not get into the log."""
    leader, follower = (folder.log() for folder in folders)
    for _ in range(2):
        append(leader)
    records = bytearray(read_bytes(leader))
    records[-1] ^= 1
    with pytest.raises(KafkaError) as refused:
        follower.following.append(bytes(records), NOW_MS)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert follower.log_end_offset == 1


def test_batch_below_the_end_is_refused(folders: tuple[LogFolder, LogFolder]) -> None:
    """I1: offsets rise. An answer that was applied already changes nothing."""
    leader, follower = (folder.log() for folder in folders)
    append(leader)
    copy(leader, follower)
    with pytest.raises(KafkaError) as refused:
        follower.following.append(read_bytes(leader), NOW_MS)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert facts(follower) == facts(leader)


@pytest.mark.parametrize("wrong", [sent(1, 2), sent(1, 3, last_offset_delta=-2)], ids=["older epoch", "no offsets"])
def test_batch_that_a_recovery_would_cut_away_is_refused(folders: tuple[LogFolder, LogFolder], wrong: bytes) -> None:
    """I1: leader epochs and offsets never fall, so that a crash never removes what was appended."""
    follower = folders[1].log()
    with pytest.raises(KafkaError) as refused:
        follower.following.append(sent(0, 3) + wrong, NOW_MS)
    assert refused.value.code is ErrorCode.CORRUPT_MESSAGE
    assert (follower.log_end_offset, follower.leader_epochs) == (1, ((3, 0),))


def test_epoch_without_records_gives_way_to_an_older_one(folders: tuple[LogFolder, LogFolder]) -> None:
    """A leader that lost its place before it wrote has an epoch of which the next leader need not know."""
    follower = folders[1].log()
    follower.following.append(sent(0, 3), NOW_MS)
    follower.assign_leader_epoch(LeaderEpoch(7))
    follower.following.append(sent(1, 5), NOW_MS)
    assert follower.leader_epochs == ((3, 0), (5, 1))


def test_batch_without_a_leader_epoch_changes_none(folders: tuple[LogFolder, LogFolder]) -> None:
    """Batches of old versions of Kafka have epoch -1; the epochs that are known stay, as after a recovery."""
    follower = folders[1].log()
    follower.following.append(sent(0, 3) + sent(1, -1), NOW_MS)
    assert follower.leader_epochs == ((3, 0),)


def test_batch_of_a_newer_epoch_than_its_sender_is_ignored(folders: tuple[LogFolder, LogFolder]) -> None:
    """A broker that lost the leadership while it answered may send records of the new leader."""
    follower = folders[1].log()
    records = sent(0, 3) + sent(1, 4) + sent(2, 3)
    assert follower.following.append(records, NOW_MS, leader_epoch=LeaderEpoch(3)) == len(sent(0, 3))
    assert follower.log_end_offset == 1


def test_full_disk_leaves_the_log_as_it_was(folders: tuple[LogFolder, LogFolder]) -> None:
    """The append can be repeated when the disk has room again."""
    leader, follower = (folder.log() for folder in folders)
    append(leader)
    with failing("pwritev", errno.ENOSPC), pytest.raises(KafkaError) as refused:
        follower.following.append(read_bytes(leader), NOW_MS)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert (follower.log_end_offset, follower.is_offline) == (0, False)
    copy(leader, follower)
    assert facts(follower) == facts(leader)


@pytest.mark.parametrize(
    ("own", "told", "end"),
    [
        ([0, 0, 1, 1], (0, 2), 2),  # the leader has other records from epoch 1 on
        ([0, 0, 0, 0], (0, 2), 2),  # the leader's epoch 0 ended earlier
        ([0, 0, 3, 3], (2, 4), 2),  # the leader's epoch is not known here: the end of the one before it
        ([0, 0, 1, 1], (1, 9), 4),  # nothing to remove
        ([2, 2, 2, 2], (1, 1), 0),  # no epoch in common
    ],
)
def test_truncation_ends_where_the_epochs_agree(
    folders: tuple[LogFolder, LogFolder], own: list[int], told: tuple[int, int], end: int
) -> None:
    """KIP-101: the follower keeps the records up to the end of the latest epoch that both logs have."""
    follower = folders[1].log()
    for epoch in own:
        append(follower, leader_epoch=epoch)
    follower.truncate_to(follower.following.agreed_end(LeaderEpoch(told[0]), Offset(told[1])), NOW_MS)
    assert follower.log_end_offset == end
    folders[1].crash()
    assert folders[1].log().log_end_offset == end


def test_truncation_waits_for_a_snapshot_that_is_being_written(
    folders: tuple[LogFolder, LogFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """I8: a flush on another thread leaves no snapshot of removed batches: after a power failure it would promise
    them."""
    follower = folders[1].log()
    for number in range(4):
        append(follower, batch(producer_id=number, epoch=0, sequence=0))
    is_writing, must_wait_or_has_ended = Event(), Event()
    order = []

    class ObservedLock:
        """A lock that tells when a thread asks for it while another one holds it."""

        def __init__(self) -> None:
            self._lock = Lock()

        def __enter__(self) -> None:
            if not self._lock.acquire(blocking=False):
                must_wait_or_has_ended.set()
                self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    def write(path: Path, entries: list[ProducerSnapshotEntry], *, sync: bool) -> None:
        is_writing.set()
        must_wait_or_has_ended.wait()
        write_snapshot(path, entries, sync=sync)
        order.append("snapshot")

    monkeypatch.setattr(follower.producers, "snapshot_lock", ObservedLock())
    monkeypatch.setattr(log_producers, "write_snapshot", write)
    flush = follower.begin_close()
    assert flush is not None
    thread = Thread(target=flush.run)
    thread.start()
    is_writing.wait()
    follower.truncate_to(Offset(2), NOW_MS)
    order.append("truncation")
    must_wait_or_has_ended.set()
    thread.join()
    assert order == ["snapshot", "truncation"]
    assert not list(follower.directory.glob("*.snapshot"))


def test_log_begins_again_where_the_leader_begins(folders: tuple[LogFolder, LogFolder]) -> None:
    """A follower whose end lies below the leader's start removes everything, and continues at that start, also after a
    crash or a restart."""
    for ending in ("restart", "crash"):
        follower = folders[1].log()
        end = follower.log_end_offset
        for sequence in range(3):
            append(follower, batch(producer_id=end + 1, epoch=0, sequence=sequence))
        follower.flush(NOW_MS)
        follower.following.restart_at(Offset(end + 50), NOW_MS)
        assert (follower.log_start_offset, follower.log_end_offset, follower.high_watermark) == (end + 50,) * 3
        assert (list(follower.producers.active()), follower.leader_epochs) == ([], ())
        getattr(folders[1], ending)()
        follower = folders[1].log()
        assert not follower.is_offline
        assert (follower.log_start_offset, follower.log_end_offset) == (end + 50, end + 50)
    append(follower)
    assert follower.log_end_offset == end + 51


def test_crash_while_the_log_begins_again_loses_nothing_that_counts(folders: tuple[LogFolder, LogFolder]) -> None:
    """After a crash between the steps, the start finds an empty log at the new start."""
    follower = folders[1].log()
    for _ in range(20):
        append(follower, batch(3, b"x" * 50))
    follower.flush(NOW_MS)
    with failing("rename", errno.EIO), pytest.raises(KafkaError):
        follower.following.restart_at(Offset(100), NOW_MS)
    assert follower.is_offline
    folders[1].crash()
    follower = folders[1].log()
    assert not follower.is_offline
    assert (follower.log_start_offset, follower.log_end_offset) == (100, 100)


@pytest.mark.parametrize("ending", ["none", "restart", "crash"])
def test_log_begins_with_a_batch_across_its_start(folders: tuple[LogFolder, LogFolder], ending: str) -> None:
    """The leader's log may begin within a batch (DeleteRecords). A follower that begins there takes over the whole
    batch and keeps its log start offset, also after a crash or a restart."""
    follower = folders[1].log()
    append(follower)
    follower.following.restart_at(Offset(53), NOW_MS)
    records = sent(50, 1, last_offset_delta=4) + sent(55, 1)
    first = follower.following.batch_across_start(records, LeaderEpoch(1))
    assert first == sent(50, 1, last_offset_delta=4)
    follower.following.begin_with(first, NOW_MS)
    assert follower.following.append(sent(55, 1), NOW_MS)
    folders[1].directory.checkpoint().result()
    if ending != "none":
        getattr(folders[1], ending)()
    follower = folders[1].log()
    assert not follower.is_offline
    assert (follower.log_start_offset, follower.log_end_offset, follower.latest_epoch) == (53, 56, 1)
    assert follower.high_watermark == 53
    assert read_bytes(follower) == records


def test_log_takes_no_other_batch_for_one_across_its_start(folders: tuple[LogFolder, LogFolder]) -> None:
    """Only the first batch for an empty log may begin below the log start offset, and it must end above it."""
    following = folders[1].log().following
    following.restart_at(Offset(53), NOW_MS)
    epoch = LeaderEpoch(1)
    damaged = bytearray(sent(50, 1, last_offset_delta=4))
    damaged[-1] ^= 1
    for records in (b"", sent(53, 1), sent(60, 1), sent(50, 1, last_offset_delta=2), bytes(damaged), damaged[:20]):
        assert following.batch_across_start(bytes(records), epoch) is None
    assert following.batch_across_start(sent(50, 2, last_offset_delta=4), epoch) is None
    following.append(sent(53, 1), NOW_MS)
    assert following.batch_across_start(sent(50, 1, last_offset_delta=9), epoch) is None


def test_log_that_can_not_take_its_first_batch_stays_empty(folders: tuple[LogFolder, LogFolder]) -> None:
    """A full disk leaves the log as it was. Once the disk has room, the log begins with the batch."""
    follower = folders[1].log()
    follower.following.restart_at(Offset(53), NOW_MS)
    batch_across = sent(50, 1, last_offset_delta=4)
    with failing("pwritev", errno.ENOSPC), pytest.raises(KafkaError):
        follower.following.begin_with(batch_across, NOW_MS)
    assert not follower.is_offline
    assert (follower.log_start_offset, follower.log_end_offset, follower.high_watermark) == (53, 53, 53)
    folders[1].crash()
    follower = folders[1].log()
    assert (follower.log_start_offset, follower.log_end_offset) == (53, 53)
    follower.following.begin_with(batch_across, NOW_MS)
    assert (follower.log_start_offset, follower.log_end_offset) == (53, 55)
    assert read_bytes(follower) == batch_across


def test_log_start_offset_follows_up_to_the_high_watermark(folders: tuple[LogFolder, LogFolder]) -> None:
    """Uncommitted records are never deleted, and the start never falls."""
    follower = folders[1].log()
    for _ in range(4):
        append(follower)
    follower.following.raise_log_start_offset(Offset(2))
    assert follower.log_start_offset == 2
    follower.following.raise_log_start_offset(Offset(1))
    assert follower.log_start_offset == 2
    follower.following.raise_log_start_offset(Offset(9))
    assert follower.log_start_offset == 4


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shared=st.integers(0, 6),
    own=st.lists(st.integers(1, 3), max_size=5),
    of_leader=st.lists(st.integers(1, 3), max_size=5),
    ends=st.sampled_from(["none", "restart", "crash"]),
)
def test_follower_becomes_equal_to_any_leader(
    tmp_path_factory: pytest.TempPathFactory, shared: int, own: list[int], of_leader: list[int], ends: str
) -> None:
    """I2: whatever records a follower has beyond those that it shares with the leader, truncation by epochs and copying
    make both logs equal."""
    path = tmp_path_factory.mktemp("pair")
    folders = LogFolder(path / "leader"), LogFolder(path / "follower")
    leader, follower = (folder.create(segment_bytes=400) for folder in folders)
    for log, sizes, epochs in ((leader, of_leader, (3, 4)), (follower, own, (1, 2))):
        for _ in range(shared):
            append(log)
        for position, size in enumerate(sizes):
            append(log, batch(size), leader_epoch=epochs[position > 1])
    leader.assign_leader_epoch(LeaderEpoch(9))
    for _ in range(10):
        epoch, end = leader.end_offset_for_epoch(follower.latest_epoch)
        if follower.latest_epoch < 0 or (epoch == follower.latest_epoch and end >= follower.log_end_offset):
            break
        follower.truncate_to(follower.following.agreed_end(epoch, end), NOW_MS)
    else:
        raise AssertionError("truncation does not end")
    copy(leader, follower)
    if ends != "none":
        getattr(folders[1], ends)()
    assert read_bytes(folders[1].log()) == read_bytes(leader)
    for folder in folders:
        folder.close()


def _log_with_an_unused_epoch(folder: LogFolder) -> Log:
    """A log with six records of epoch 0, and epoch 3 in its checkpoint without a record."""
    log = folder.log()
    for offset in range(6):
        log.following.append(sent(offset, 0), NOW_MS)
    log.assign_leader_epoch(LeaderEpoch(3))
    log.flush()
    assert log.leader_epochs == ((0, 0), (3, 6))
    return log


@pytest.mark.parametrize("later_epoch", [None, 5])
@pytest.mark.parametrize("epoch", [0, 2])
def test_an_epoch_that_was_never_written_to_is_forgotten_after_a_crash(
    folders: tuple[LogFolder, LogFolder], epoch: int, later_epoch: int | None
) -> None:
    """A broker led in epoch 3 without a record, and its checkpoint has the epoch. As a follower it then got a record of
    an earlier epoch at that offset. After a crash the checkpoint may still be the old one; the records decide."""
    _, folder = folders
    log = _log_with_an_unused_epoch(folder)
    log.truncate_to(log.following.agreed_end(LeaderEpoch(0), Offset(7)), NOW_MS)
    log.following.append(sent(6, epoch), NOW_MS)
    expected = [(0, 0)] if epoch == 0 else [(0, 0), (epoch, 6)]
    if later_epoch is not None:
        log.following.append(sent(7, later_epoch), NOW_MS)
        expected.append((later_epoch, 7))
    before = log.leader_epochs
    folder.crash()
    assert folder.log().leader_epochs == before == tuple(expected)


@pytest.mark.parametrize("first", ["restart", "crash"])
@pytest.mark.parametrize("second", ["restart", "crash"])
def test_an_epoch_that_a_start_has_dropped_does_not_come_back(
    folders: tuple[LogFolder, LogFolder], first: str, second: str
) -> None:
    """A start drops an epoch without a record, which the checkpoint has. A record of an earlier epoch, which the log
    then gets at that offset, keeps its epoch at the next start. Otherwise the log would seem to diverge from its
    leader's, and a committed record would be cut away."""
    _, folder = folders
    log = _log_with_an_unused_epoch(folder)
    getattr(folder, first)()
    log = folder.log()
    assert log.leader_epochs == ((0, 0),)

    log.following.append(sent(6, 0), NOW_MS)
    log.flush()
    getattr(folder, second)()

    assert folder.log().leader_epochs == ((0, 0),)
