"""Tests the last stable offset and the list of aborted transactions, also after restarts and crashes.

A simulated read_committed consumer reads up to the last stable offset and skips batches of producers with an aborted
transaction. It must see exactly the committed records.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.failing_calls import failing
from tests.support.log_folder import NOW_MS, LogFolder, batch

from klamm.core.log.transaction_verification import UNVERIFIED
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.records import iterate_records
from klamm.protocol.types import LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId
from klamm.storage.log.log import Log
from klamm.storage.recovery.producer_recovery import marker_of
from klamm.storage.segment.transaction_index import AbortedTransaction


class Writer:
    """Producers that write to one log, and the records that a read_committed consumer should see."""

    def __init__(self) -> None:
        self.sequences: dict[int, int] = {}
        self.open: dict[int, list[tuple[int, bytes]]] = {}
        self.visible: list[tuple[int, bytes]] = []
        self._written = 0

    def write(self, log: Log, producer_id: int, *, size: int = 1, is_transactional: bool = True) -> None:
        """Appends a batch of a producer. A transactional batch opens a transaction if the producer has none."""
        self._written += 1
        value = b"%d of producer %d" % (self._written, producer_id)
        if is_transactional:
            sequence = self.sequences.get(producer_id, 0)
            self.sequences[producer_id] = sequence + size
            records = batch(size, value, producer_id=producer_id, epoch=0, sequence=sequence, is_transactional=True)
        else:
            records = batch(size, value)
        info = log.appender.append_as_leader(
            records, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, verification_guard=UNVERIFIED
        )
        target = self.open.setdefault(producer_id, []) if is_transactional else self.visible
        target += [(offset, value) for offset in range(info.first_offset, info.last_offset + 1)]

    def end(self, log: Log, producer_id: int, *, is_commit: bool) -> None:
        """Writes the marker for a producer's transaction."""
        mark(log, producer_id, is_commit=is_commit)
        records = self.open.pop(producer_id, [])
        if is_commit:
            self.visible += records

    def decided(self, log: Log) -> list[tuple[int, bytes]]:
        """Returns the records that are visible now: those below the first record of the oldest open transaction."""
        end = min((records[0][0] for records in self.open.values()), default=log.log_end_offset)
        return sorted(record for record in self.visible if record[0] < end)


def mark(log: Log, producer_id: int, *, is_commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> None:
    """Writes a marker as a coordinator does."""
    records = encode_end_transaction_marker(
        EndTransactionMarker(is_commit, coordinator_epoch),
        producer_id=ProducerId(producer_id),
        producer_epoch=ProducerEpoch(epoch),
        timestamp_ms=NOW_MS,
    )
    log.appender.append_as_leader(
        records, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, from_client=False, transaction_version=1
    )


def commit_all(log: Log) -> None:
    """Moves the high watermark to the log end, as when all replicas have the records."""
    log.advance_high_watermark(log.log_end_offset)


def consume(log: Log, *, max_bytes: int = 1_000_000, start: int = 0) -> list[tuple[int, bytes]]:
    """Reads as the Java consumer reads with isolation.level=read_committed (`CompletedFetch.nextFetchedRecord`)."""
    seen: list[tuple[int, bytes]] = []
    offset = Offset(start)
    while offset < log.last_stable_offset:
        data = log.read(offset, max_bytes, upper_bound=log.last_stable_offset, minimum_one_batch=True)
        aborted = sorted(log.aborted_transactions(offset, len(data)), key=lambda each: each.first_offset)
        producers: set[int] = set()
        for position, header in iterate_batches(data):
            while aborted and aborted[0].first_offset <= header.last_offset:
                producers.add(aborted.pop(0).producer_id)
            offset = header.next_offset
            if header.is_control:
                marker = marker_of(data[position:])
                if marker is not None and not marker.is_commit:
                    producers.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in producers):
                seen += [
                    (record.offset, record.value or b"")
                    for record in iterate_records(data, position)
                    if record.offset >= start
                ]
    return seen


def test_an_open_transaction_holds_back_all_that_comes_after_it(folder: LogFolder) -> None:
    """An open transaction holds back all records after it, because a read_committed consumer reads in order."""
    log, writer = folder.create(), Writer()
    writer.write(log, 0, is_transactional=False)
    writer.write(log, 1)
    writer.write(log, 0, is_transactional=False)
    commit_all(log)
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    writer.end(log, 1, is_commit=False)
    assert log.last_stable_offset == 1, "the marker is not committed"
    commit_all(log)
    assert log.last_stable_offset == 4
    assert consume(log) == writer.decided(log)


def test_records_that_were_deleted_hold_back_nothing_before_them(folder: LogFolder) -> None:
    """The last stable offset is never below the log start offset."""
    log, writer = folder.create(), Writer()
    writer.write(log, 1, size=5)
    commit_all(log)
    log.delete_records_before(Offset(3))
    assert log.last_stable_offset == 3


def test_transactions_of_a_topic_without_readers_are_forgotten(folder: LogFolder) -> None:
    """A log remembers only undecided transactions, even if no consumer asks for the last stable offset."""
    log, writer = folder.create(), Writer()
    for _ in range(100):
        writer.write(log, 1)
        writer.end(log, 1, is_commit=True)
        commit_all(log)
    assert len(log.producers.state.transactions) <= 1
    folder.crash()
    assert len(folder.log().producers.state.transactions) <= 1


def test_what_a_crash_left_is_stable_only_when_it_is_committed(folder: LogFolder) -> None:
    """After a crash, a transaction is stable only when the high watermark has passed its marker.

    Recovered markers may not be on the disk yet, and here the high watermark follows the disk.
    """
    log, writer = folder.create(), Writer()
    writer.write(log, 0, is_transactional=False)
    log.flush()
    for is_commit in (True, False):
        writer.write(log, 1)
        writer.end(log, 1, is_commit=is_commit)
    writer.write(log, 2)
    folder.crash()
    log = folder.log()
    for high_watermark, last_stable_offset in ((1, 1), (4, 1), (5, 5), (6, 5)):
        log.advance_high_watermark(Offset(high_watermark))
        assert log.last_stable_offset == last_stable_offset
    assert consume(log) == writer.decided(log)


def test_a_transaction_that_was_not_verified_is_refused(folder: LogFolder) -> None:
    """A batch of an unverified transaction is refused with INVALID_TXN_STATE, and nothing is written."""
    log = folder.create()
    records = batch(producer_id=1, epoch=0, sequence=0, is_transactional=True)
    with pytest.raises(KafkaError) as refused:
        log.appender.append_as_leader(records, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    guard = log.transactions.begin_verification(
        ProducerId(1), ProducerEpoch(0), 0, adds_partitions=False, now_ms=NOW_MS
    )
    log.appender.append_as_leader(records, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, verification_guard=guard)
    assert log.log_end_offset == 1
    assert log.transactions.has_ongoing(ProducerId(1), ProducerEpoch(0))


def test_a_marker_of_an_old_coordinator_is_not_written(folder: LogFolder) -> None:
    """A marker with an old coordinator epoch or producer epoch is refused, also after a restart."""
    log = folder.create()
    mark(log, 1, is_commit=True, epoch=4, coordinator_epoch=9)
    folder.restart()
    log = folder.log()
    for epoch, coordinator_epoch, code in (
        (4, 8, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (3, 9, ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        with pytest.raises(KafkaError) as refused:
            mark(log, 1, is_commit=True, epoch=epoch, coordinator_epoch=coordinator_epoch)
        assert refused.value.code is code
    assert log.log_end_offset == 1


def test_the_index_goes_with_its_segment(folder: LogFolder) -> None:
    """A transaction index is renamed and removed together with its segment."""
    log, writer = folder.create(retention_ms=1000), Writer()
    writer.write(log, 1)
    writer.end(log, 1, is_commit=False)
    commit_all(log)
    log.roll(NOW_MS)
    assert [path.name for path in log.directory.glob("*.txnindex")] == ["00000000000000000000.txnindex"]
    log.delete_old_segments(Millis(NOW_MS + 100_000))
    assert not list(log.directory.glob("*.txnindex"))
    assert any(
        path.name.endswith(".txnindex.deleted") for path in log.retention.take_removals(Millis(NOW_MS + 10_000_000))
    )


def test_an_index_that_is_damaged_is_built_anew(folder: LogFolder) -> None:
    """A damaged transaction index is rebuilt; without it a consumer would take aborted records for committed ones."""
    log, writer = folder.create(), Writer()
    for producer_id in (1, 2):
        writer.write(log, producer_id)
    writer.end(log, 1, is_commit=False)
    commit_all(log)
    log.roll(NOW_MS)
    writer.end(log, 2, is_commit=False)
    writer.write(log, 0, is_transactional=False)
    commit_all(log)
    log.roll(NOW_MS)
    expected = log.aborted_transactions(Offset(0), 1_000_000)
    assert len(expected) == 2
    folder.restart()
    for path in folder.log().directory.glob("*.txnindex"):
        path.write_bytes(path.read_bytes()[:-1])
    log = folder.log()
    commit_all(log)
    assert log.aborted_transactions(Offset(0), 1_000_000) == expected
    assert consume(log) == writer.decided(log)


def damage_the_index(folder: LogFolder) -> tuple[Writer, list[AbortedTransaction]]:
    """Creates a log with an aborted transaction and a damaged index, and returns the index's former entries."""
    log, writer = folder.create(), Writer()
    writer.write(log, 1)
    writer.end(log, 1, is_commit=False)
    writer.write(log, 0, is_transactional=False)
    commit_all(log)
    log.roll(NOW_MS)
    expected = log.aborted_transactions(Offset(0), 1_000_000)
    folder.restart()
    (index,) = folder.log().directory.glob("*.txnindex")
    index.write_bytes(index.read_bytes()[:-1])
    return writer, expected


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
def test_an_index_is_built_anew_on_a_full_disk_too(folder: LogFolder, call: str) -> None:
    """On a full disk a rebuilt index is kept in memory, and the next process rebuilds it again."""
    writer, expected = damage_the_index(folder)
    log = folder.log()
    commit_all(log)
    with failing(call, errno.ENOSPC):
        for _ in range(2):
            assert log.aborted_transactions(Offset(0), 1_000_000) == expected
        assert consume(log) == writer.decided(log)
    folder.kill()
    folder.start()
    log = folder.log()
    commit_all(log)
    assert log.aborted_transactions(Offset(0), 1_000_000) == expected


def test_an_index_that_could_not_be_built_is_built_by_the_next_read(folder: LogFolder) -> None:
    """I11: if the rebuild fails, the request for aborted transactions fails too, and the next one rebuilds the
    index."""
    writer, expected = damage_the_index(folder)
    log = folder.log()
    commit_all(log)
    for call in ("pread", "open"):
        with failing(call, errno.EIO, only_to_make=False), pytest.raises(KafkaError) as refused:
            log.aborted_transactions(Offset(0), 1_000_000)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.aborted_transactions(Offset(0), 1_000_000) == expected
    assert consume(log) == writer.decided(log)


def test_an_index_that_is_no_good_is_not_built_from_a_damaged_log(folder: LogFolder) -> None:
    """I8, I11: the partition goes offline if its log is damaged during the rebuild, because the damaged batch may be an
    abort.

    With the original file, the index is rebuilt.
    """
    log, writer = folder.create(), Writer()
    writer.write(log, 1)
    writer.end(log, 1, is_commit=False)
    writer.write(log, 0, is_transactional=False)
    commit_all(log)
    log.roll(NOW_MS)
    writer.write(log, 0, is_transactional=False)
    folder.restart()
    (index,) = folder.log().directory.glob("*.txnindex")
    index.write_bytes(index.read_bytes()[:-1])
    segment = folder.log_files()[0]
    content = segment.read_bytes()
    segment.write_bytes(content[:16] + b"\x12" + content[17:])
    log = folder.log()
    commit_all(log)
    with pytest.raises(KafkaError) as refused:
        log.aborted_transactions(Offset(0), 1_000_000)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert f"{segment} is damaged at offset 0, position 0" in (log.offline_reason or "")
    folder.kill()
    segment.write_bytes(content)
    folder.start()
    log = folder.log()
    commit_all(log)
    assert consume(log) == writer.decided(log)


def test_a_log_that_is_cut_forgets_verifications(folder: LogFolder) -> None:
    """I10: a truncation drops verifications in progress, so that a batch of the verified transaction is refused.

    The truncation removes the marker of the previous transaction, which is then open again.
    """
    log, writer = folder.create(), Writer()
    writer.write(log, 1)
    log.roll(NOW_MS)  # after the truncation, the producer state comes from the snapshot that this roll writes
    folder.directory.wait_for_background()
    writer.end(log, 1, is_commit=True)
    guard = log.transactions.begin_verification(
        ProducerId(1), ProducerEpoch(1), 0, adds_partitions=False, now_ms=NOW_MS
    )
    log.truncate_to(Offset(1), NOW_MS)
    writer.write(log, 1)
    assert log.log_end_offset == 2
    records = batch(producer_id=1, epoch=1, sequence=0, is_transactional=True)
    with pytest.raises(KafkaError) as refused:
        log.appender.append_as_leader(records, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, verification_guard=guard)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_guard_from_before_a_cut_is_never_given_again(folder: LogFolder) -> None:
    """A batch that was verified before a truncation is refused, also while a later verification of its producer is in
    progress: that one may find that the transaction has ended."""
    log = folder.create()
    mark(log, 2, is_commit=True)
    mark(log, 2, is_commit=True)
    begin = partial(
        log.transactions.begin_verification, ProducerId(1), ProducerEpoch(0), 0, adds_partitions=False, now_ms=NOW_MS
    )
    before = begin()
    log.truncate_to(Offset(1), NOW_MS)
    mark(log, 2, is_commit=True)
    after = begin()
    records = batch(producer_id=1, epoch=0, sequence=0, is_transactional=True)
    append = partial(log.appender.append_as_leader, records, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS)
    with pytest.raises(KafkaError) as refused:
        append(verification_guard=before)
    assert refused.value.code is ErrorCode.INVALID_TXN_STATE
    append(verification_guard=after)


def test_a_log_that_is_cut_forgets_markers_behind_the_cut(folder: LogFolder) -> None:
    """A transaction whose marker a truncation removes is open again."""
    log, writer = folder.create(), Writer()
    writer.write(log, 1)
    writer.end(log, 1, is_commit=False)
    writer.write(log, 2)
    log.truncate_to(Offset(1), NOW_MS)
    commit_all(log)
    assert (log.last_stable_offset, log.transactions.first_undecided_offset) == (0, 0)
    assert log.aborted_transactions(Offset(0), 1000) == []


_STEP = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.sampled_from(["commit", "abort"]), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("plain"), st.just(0), st.integers(1, 2)),
    st.tuples(st.sampled_from(["roll", "flush", "restart", "crash"]), st.just(0), st.just(0)),
)


@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_STEP, min_size=1, max_size=25), st.integers(61, 400))
def test_whatever_happens_exactly_what_was_committed_is_seen(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], max_bytes: int
) -> None:
    """A consumer sees exactly the committed records after any mix of transactions, rolls, restarts and crashes."""
    folder = LogFolder(Path(tmp_path_factory.mktemp("log")))
    writer = Writer()
    log = folder.create(index_interval_bytes=100)
    for kind, producer_id, size in steps:
        if kind == "write":
            writer.write(log, producer_id, size=size)
        elif kind == "plain":
            writer.write(log, producer_id, size=size, is_transactional=False)
        elif kind in ("commit", "abort"):
            writer.end(log, producer_id, is_commit=kind == "commit")
        elif kind == "roll":
            log.roll(NOW_MS)
        elif kind == "flush":
            log.flush()
        elif kind == "restart":
            folder.restart()
            log = folder.log()
        else:
            folder.crash()
            log = folder.log()
        commit_all(log)
    assert consume(log, max_bytes=max_bytes) == writer.decided(log)
    aborted = log.aborted_transactions(Offset(0), 10**9)
    folder.crash()
    log = folder.log()
    commit_all(log)
    assert log.aborted_transactions(Offset(0), 10**9) == aborted
    assert consume(log) == writer.decided(log)
    folder.close()


class Lagging:
    """A log whose high watermark lags, and its transactions: the offsets of each, and the offset of its marker."""

    def __init__(self, folder: LogFolder) -> None:
        self.folder = folder
        self.log = folder.create(index_interval_bytes=100)
        self.writer = Writer()
        self.transactions: list[tuple[list[int], int | None]] = []
        self._open: dict[int, list[int]] = {}

    def write(self, producer_id: int) -> None:
        self._open.setdefault(producer_id, []).append(self.log.log_end_offset)
        self.writer.write(self.log, producer_id)

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        self.transactions.append((self._open.pop(producer_id, []), self.log.log_end_offset))
        mark(self.log, producer_id, is_commit=is_commit)

    def reopen(self, reopen: Callable[[], None]) -> None:
        """Reopens the log. Its high watermark begins at the recovery point."""
        reopen()
        self.log = self.folder.log()
        self.log.advance_high_watermark(self.log.recovery_point)

    def delete_records(self) -> None:
        self.log.delete_records_before(self.log.high_watermark)
        self.log.delete_old_segments(NOW_MS)

    def check(self) -> None:
        """Asserts I11: no undecided record is below the last stable offset, and only open transactions hold it back at
        the end."""
        log = self.log
        stable = log.last_stable_offset
        assert log.log_start_offset <= stable <= log.high_watermark
        undecided = [
            offset
            for offsets, marker in (*self.transactions, *((each, None) for each in self._open.values()))
            if marker is None or marker >= log.high_watermark
            for offset in offsets
            if offset >= log.log_start_offset
        ]
        assert stable <= min(undecided, default=stable)
        if log.high_watermark == log.log_end_offset:
            first = min((min(offsets) for offsets in self._open.values()), default=log.high_watermark)
            assert stable >= max(min(first, log.high_watermark), log.log_start_offset)


_LAGGING_STEP = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["commit", "abort"]), st.integers(1, 3)),
    st.tuples(st.just("advance"), st.integers(1, 3)),
    st.tuples(st.just("crash"), st.just(0)),
    st.tuples(st.sampled_from(["roll", "flush", "restart", "delete"]), st.just(0)),
)


def test_a_producer_goes_on_after_a_crash_though_its_records_were_deleted(folder: LogFolder) -> None:
    """A producer continues after a crash with its next sequence, even if DeleteRecords left only its marker."""
    log, writer = folder.create(), Writer()
    writer.write(log, 1)
    writer.end(log, 1, is_commit=True)
    log.advance_high_watermark(Offset(1))
    log.delete_records_before(Offset(1))
    folder.restart()
    writer.write(folder.log(), 2)
    folder.crash()
    writer.write(folder.log(), 1)
    assert folder.log().log_end_offset == 4


@settings(deadline=None, max_examples=examples(50), suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_LAGGING_STEP, min_size=8, max_size=30))
def test_nothing_undecided_is_stable_while_the_high_watermark_lags(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    """While the high watermark lags, as with klamm.fsync=ack, no undecided record is stable.

    This holds over rolls, restarts, crashes, and deleted records and segments.
    """
    folder = LogFolder(Path(tmp_path_factory.mktemp("log")))
    lagging = Lagging(folder)
    for kind, number in steps:
        log = lagging.log
        if kind == "write":
            lagging.write(number)
        elif kind in ("commit", "abort"):
            lagging.end(number, is_commit=kind == "commit")
        elif kind == "advance":
            log.advance_high_watermark(Offset(log.high_watermark + number))
        elif kind == "roll":
            log.roll(NOW_MS)
        elif kind == "flush":
            log.flush()
        elif kind == "delete":
            lagging.delete_records()
        else:
            lagging.reopen(folder.restart if kind == "restart" else folder.crash)
        lagging.check()
    commit_all(lagging.log)
    lagging.check()
    folder.close()
