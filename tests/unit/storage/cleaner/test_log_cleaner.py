"""Tests which records a cleaning keeps and removes, and that appends and reads continue meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.cleaner import clean, clean_steps, find_dirtiest, run_with
from tests.support.examples import examples
from tests.support.log_folder import (
    NOW_MS,
    ORDERS,
    LogFolder,
    append,
    batch,
    found_by_time,
    read_all,
    read_bytes,
    sent,
)

from klamm.config.broker_config import BrokerConfig
from klamm.protocol.compression import Compression
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.record_batch import BatchHeader
from klamm.protocol.record_scanner import OffsetTable
from klamm.protocol.records import encode_batch, iterate_batches
from klamm.protocol.types import LeaderEpoch, Millis, Offset, PartitionIndex, ProducerEpoch, ProducerId, TopicPartition
from klamm.storage.cleaner.log_cleaner import run_here
from klamm.storage.log.log import Log

COMPACT = frozenset({"compact"})
OFFSETS_IN_SEGMENT = 3


def _create(folder: LogFolder, **config: Any) -> Log:
    return folder.create(**{"cleanup_policy": COMPACT, "segment_bytes": 250, **config})


def _put(log: Log, *pairs: tuple[str, str | None], **others: Any) -> None:
    records = [
        (NOW_MS, key.encode(), None if value is None else value.encode(), ((("h"), b"x"),)) for key, value in pairs
    ]
    append(log, encode_batch(records, **others))


def _roll(folder: LogFolder, log: Log) -> None:
    log.roll(folder.now_ms)


def _values(log: Log) -> list[tuple[int, str, str | None]]:
    return [
        (record.offset, (record.key or b"").decode(), None if record.value is None else record.value.decode())
        for record in read_all(log)
    ]


def _headers(log: Log) -> list[BatchHeader]:
    return [header for _, header in iterate_batches(read_bytes(log))]


def _suffixes(log: Log) -> set[str]:
    return {path.suffix for path in log.directory.iterdir()} & {".cleaned", ".swap"}


def test_the_last_value_of_each_key_stays_where_it_was(folder: LogFolder) -> None:
    """Cleaning keeps the last record of each key with offset, timestamp and headers, and leaves the active segment
    alone."""
    log = _create(folder)
    for number in range(30):
        _put(log, (f"k{number % 4}", f"v{number}"))
    before = {record.offset: record for record in read_all(log)}
    active = log.directory / sorted(path.name for path in log.directory.glob("*.log"))[-1]
    bytes_of_active = active.read_bytes()
    assert clean(folder)
    kept = read_all(log)
    active_base = int(active.stem)
    assert [record.offset for record in kept if record.offset < active_base] == list(
        range(active_base - 4, active_base)
    )
    assert all(before[record.offset] == record for record in kept)
    assert active.read_bytes() == bytes_of_active
    assert (log.log_start_offset, log.log_end_offset) == (0, 30)
    assert find_dirtiest(folder) is None, "it is clean now"


def test_truncated_records_that_come_back_remove_no_committed_ones(folder: LogFolder) -> None:
    """I3: a power failure undoes a follower's truncation, whose offsets have committed records meanwhile. A cleaning
    before the next truncation does not take the records that came back for the newest of their keys."""
    log = _create(folder, min_cleanable_dirty_ratio=0.0)
    _put(log, ("a", "committed"), ("b", "committed"))
    for key in ("a", "c"):
        _roll(folder, log)
        _put(log, (key, "truncated"))
    log.flush()
    before = {path: path.read_bytes() for path in folder.log_files()}
    log.truncate_to(Offset(2), NOW_MS)
    log.following.append(sent(2, 1) + sent(3, 1), NOW_MS)
    log.advance_high_watermark(Offset(4))
    folder.directory.checkpoint().result()
    folder.kill()
    for path, content in before.items():
        path.write_bytes(content)
    folder.start()

    log = folder.log()
    assert len(read_all(log)) == 4
    clean(folder)
    log.truncate_to(Offset(2), NOW_MS)
    assert _values(log) == [(0, "a", "committed"), (1, "b", "committed")]


def test_cleaning_survives_a_restart_and_goes_on_where_it_stopped(folder: LogFolder) -> None:
    """The cleaned offset is stored in cleaner-offset-checkpoint, in Kafka's format, and survives restarts and
    crashes."""
    log = _create(folder, min_cleanable_dirty_ratio=0.0)
    for number in range(12):
        _put(log, (f"k{number % 4}", f"v{number}"))
    assert clean(folder)
    values = _values(log)
    cleaned_to = int(sorted(path.stem for path in log.directory.glob("*.log"))[-1])
    checkpoint = folder.path / "cleaner-offset-checkpoint"
    assert checkpoint.read_text() == f"0\n1\norders 0 {cleaned_to}\n"
    for restart in (folder.restart, folder.crash):
        restart()
        assert find_dirtiest(folder) is None
        assert _values(folder.log()) == values
        assert folder.log().log_end_offset == 12


@pytest.mark.parametrize("codec", list(Compression))
def test_a_batch_of_any_codec_is_thinned_out(folder: LogFolder, codec: Compression) -> None:
    """A batch that loses some of its records keeps its codec and its offsets."""
    log = _create(folder, segment_bytes=10_000)
    _put(log, *[(f"k{number % 10}", "x" * 50) for number in range(20)], compression=codec)
    _put(log, ("k3", "new"), compression=codec)
    _roll(folder, log)
    assert clean(folder)
    offsets = [offset for offset, _, _ in _values(log)]
    assert offsets == [10, 11, 12, 14, 15, 16, 17, 18, 19, 20]
    first, last = _headers(log)
    assert (first.base_offset, first.last_offset, first.records_count) == (0, 19, 9)
    assert {first.compression, last.compression} == {codec}


def test_a_batch_that_stays_whole_is_not_touched(folder: LogFolder) -> None:
    """I9: a batch that loses no record keeps the producer's bytes."""
    log = _create(folder, segment_bytes=10_000)
    _put(log, ("a", "1"), ("b", "1"), compression=Compression.GZIP)
    _put(log, ("c", "1"))
    _roll(folder, log)
    before = read_bytes(log)
    assert clean(folder)
    assert read_bytes(log) == before


def test_a_tombstone_goes_after_its_retention(folder: LogFolder) -> None:
    """KIP-534: the first cleaning writes a tombstone's delete horizon, and a cleaning after the horizon removes it."""
    log = _create(folder, delete_retention_ms=1000, min_cleanable_dirty_ratio=0.0)
    _put(log, ("a", "1"))
    _put(log, ("a", None))
    _roll(folder, log)
    assert clean(folder)
    assert _values(log) == [(1, "a", None)]
    assert read_all(log)[0].timestamp_ms == NOW_MS
    horizons = [header.base_timestamp for header in _headers(log) if header.has_delete_horizon]
    assert horizons == [NOW_MS + 1000]
    for wait_ms, expected in ((999, [(1, "a", None)]), (1, [])):
        folder.advance(wait_ms)
        _put(log, ("b", "1"))
        _roll(folder, log)
        assert clean(folder)
        assert [value for value in _values(log) if value[1] == "a"] == expected


def test_a_key_that_comes_back_after_its_tombstone_stays(folder: LogFolder) -> None:
    """A tombstone deletes only records before it: a key that is written again stays."""
    log = _create(folder)
    for value in ("1", None, "2"):
        _put(log, ("a", value))
    _roll(folder, log)
    assert clean(folder)
    assert _values(log) == [(2, "a", "2")]


def test_more_keys_than_the_memory_holds_are_cleaned_in_rounds(folder: LogFolder) -> None:
    """log.cleaner.dedupe.buffer.size limits the memory of a cleaning; keys that do not fit wait for the next round."""
    log = _create(folder, segment_bytes=2000, min_cleanable_dirty_ratio=0.0)
    for number in range(400):
        _put(log, (f"k{number % 50}", f"v{number}"))
    folder.directory.cleaner.configure(BrokerConfig(log_cleaner_dedupe_buffer_size=20 * OffsetTable.BYTES_PER_ENTRY))
    rounds = 0
    while clean(folder):
        rounds += 1
    assert rounds > 1
    active_base = int(folder.log_files()[-1].stem)
    kept = [offset for offset, _, _ in _values(log) if offset < active_base]
    assert kept == list(range(active_base - 50, active_base))


def test_small_segments_become_one(folder: LogFolder) -> None:
    """Cleaning merges small segments within segment.bytes, and the old files are removed after file.delete.delay.ms."""
    log = _create(folder, file_delete_delay_ms=100)
    for number in range(30):
        _put(log, ("k", f"v{number}"))
    folder.config = replace(folder.config, segment_bytes=100_000)
    log.update_config(folder.config)
    before = log.segment_count
    assert before > 5
    assert clean(folder)
    assert log.segment_count == 2
    assert log.size_bytes < 500
    assert list(log.directory.glob("*.deleted"))
    folder.advance(100)
    folder.directory.housekeep(folder.now_ms)
    folder.directory.wait_for_background()
    assert not list(log.directory.glob("*.deleted"))
    assert {path.stem for path in log.directory.glob("*.snapshot")} <= {path.stem for path in folder.log_files()}
    assert _suffixes(log) == set()


def test_a_cleaned_segment_shows_the_age_of_what_is_in_it(folder: LogFolder) -> None:
    """A cleaned segment keeps the old modification time, which stands for the age of records without timestamps."""
    import os

    log = _create(folder)
    for number in range(10):
        _put(log, ("k", f"v{number}"))
    for path in folder.log_files():
        os.utime(path, (1000, 1000))
    assert clean(folder)
    assert {path.stat().st_mtime for path in folder.log_files()} == {1000}


def test_reading_goes_over_the_gaps(folder: LogFolder) -> None:
    """A read from any offset, and a search by any timestamp, skips the gaps that a cleaning left."""
    log = _create(folder)
    for number in range(40):
        append(log, batch(key=b"k%d" % (number % 3), value=b"%d" % number, timestamp_ms=NOW_MS + number))
    assert clean(folder)
    left = [record.offset for record in read_all(log)]
    for offset in range(40):
        assert [record.offset for record in read_all(log, offset)] == [each for each in left if each >= offset]
        found = found_by_time(log.search_timestamp(Millis(NOW_MS + offset)))
        assert found is not None
        assert found[:2] == (NOW_MS + found[1], min(each for each in left if each >= offset))
    assert found_by_time(log.search_max_timestamp()) == (NOW_MS + 39, 39, 0)


def test_a_crash_after_cleaning_cuts_nothing_though_offsets_are_missing(folder: LogFolder) -> None:
    """I8: recovery keeps a cleaned log with missing offsets, even if the topic's policy is no longer compact."""
    log = _create(folder)
    for number in range(20):
        _put(log, (f"k{number % 2}", f"v{number}"))
    assert clean(folder)
    values = _values(log)
    folder.config = replace(folder.config, cleanup_policy=frozenset({"delete"}))
    folder.crash()
    assert _values(folder.log()) == values
    assert folder.log().log_end_offset == 20


def test_offsets_are_never_given_twice_though_the_log_ends_in_a_gap(folder: LogFolder) -> None:
    """A log whose last records were cleaned away assigns no offset twice, even if the active segment is empty."""
    log = _create(folder)
    _put(log, ("a", "1"), ("b", "1"), ("a", None), ("b", None))
    _roll(folder, log)
    folder.config = replace(folder.config, delete_retention_ms=0, min_cleanable_dirty_ratio=0.0)
    log.update_config(folder.config)
    assert clean(folder)
    _put(log, ("c", "1"))
    _roll(folder, log)
    assert clean(folder)
    _put(log, ("c", None))
    _roll(folder, log)
    for _ in range(2):
        clean(folder)
        _put(log, ("d", "1"))
        _roll(folder, log)
    end = log.log_end_offset
    folder.crash()
    assert folder.log().log_end_offset == end
    assert append(folder.log()).first_offset == end


def test_a_producer_goes_on_where_it_was(folder: LogFolder) -> None:
    """I10: cleaning keeps a producer's last batch, at least its header, so that a restart still knows the sequence."""
    log = _create(folder)
    append(log, batch(2, key=b"a", producer_id=7, epoch=1, sequence=0))
    append(log, batch(2, key=b"a", producer_id=7, epoch=1, sequence=2))
    append(log, batch(key=b"a"))
    _roll(folder, log)
    assert clean(folder)
    assert [(header.producer_id, header.records_count) for header in _headers(log)] == [(7, 0), (-1, 1)]
    for snapshot in log.directory.glob("*.snapshot"):
        snapshot.unlink()
    folder.crash()
    log = folder.log()
    assert append(log, batch(2, key=b"a", producer_id=7, epoch=1, sequence=2)).is_duplicate
    assert append(log, batch(1, key=b"a", producer_id=7, epoch=1, sequence=4)).first_offset == 5
    folder.advance(100_000_000)
    log.producers.expire(folder.now_ms)
    _roll(folder, log)
    _put(log, ("b", "1"))
    _roll(folder, log)
    assert clean(folder)
    assert 0 not in [header.records_count for header in _headers(log)][:-1]


def _transaction(log: Log, producer: int, pairs: Sequence[tuple[str, str]], *, sequence: int, commits: bool) -> None:
    _begin_transaction(log, producer, pairs, sequence=sequence)
    _end_transaction(log, producer, commits=commits)


def _begin_transaction(log: Log, producer: int, pairs: Sequence[tuple[str, str]], *, sequence: int) -> None:
    records = [(NOW_MS, key.encode(), value.encode(), ()) for key, value in pairs]
    guard = log.transactions.begin_verification(
        ProducerId(producer), ProducerEpoch(0), sequence, adds_partitions=False, now_ms=NOW_MS
    )
    log.appender.append_as_leader(
        encode_batch(records, producer_id=producer, producer_epoch=0, base_sequence=sequence, is_transactional=True),
        leader_epoch=LeaderEpoch(0),
        now_ms=NOW_MS,
        verification_guard=guard,
    )


def _end_transaction(log: Log, producer: int, *, commits: bool) -> None:
    marker = encode_end_transaction_marker(
        EndTransactionMarker(commits, 0),
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=NOW_MS,
    )
    log.appender.append_as_leader(marker, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, from_client=False)
    log.advance_high_watermark(log.log_end_offset)


def test_an_abort_of_before_does_not_count_against_what_is_committed_since(folder: LogFolder) -> None:
    """I9: a producer's committed record replaces older values, even if the producer aborted a transaction before.

    The first cleaning has passed the abort marker, and the second cleaning begins after it.
    """
    log = _create(folder, min_cleanable_dirty_ratio=0.0)
    _put(log, ("a", "old"))
    _transaction(log, 1, [("b", "aborted")], sequence=0, commits=False)
    _roll(folder, log)
    _put(log, ("c", "1"))
    _roll(folder, log)
    assert clean(folder)
    _transaction(log, 1, [("a", "new")], sequence=1, commits=True)
    _roll(folder, log)
    _put(log, ("d", "1"))
    _roll(folder, log)
    assert clean(folder)
    assert ("a", "old") not in [(key, value) for _, key, value in _values(log)]


def test_a_marker_lasts_before_what_its_transaction_supersedes_goes(folder: LogFolder) -> None:
    """I9: before a cleaning removes a record, it syncs the commit marker of the transaction that replaces the record.

    The marker is in the active segment, after all cleaned segments. If a power failure took the marker, the transaction
    could still be aborted, and the key would have no value.
    """
    log = _create(folder)
    _put(log, ("a", "old"))
    _begin_transaction(log, 1, [("a", "new")], sequence=0)
    _roll(folder, log)
    folder.directory.wait_for_background()
    _end_transaction(log, 1, commits=True)
    assert log.recovery_point < log.log_end_offset
    assert clean(folder)
    assert _values(log)[0] == (1, "a", "new")
    assert log.recovery_point == log.log_end_offset


def test_what_was_aborted_goes_and_hides_nothing(folder: LogFolder) -> None:
    """I11, I12: an aborted record replaces no value, and a marker goes after its records and its retention time."""
    log = _create(folder, segment_bytes=10_000, delete_retention_ms=1000, min_cleanable_dirty_ratio=0.0)
    _put(log, ("a", "plain"))
    _transaction(log, 1, [("a", "aborted"), ("b", "aborted")], sequence=0, commits=False)
    _transaction(log, 1, [("c", "committed")], sequence=2, commits=True)
    _transaction(log, 1, [("c", "committed again")], sequence=3, commits=True)
    _roll(folder, log)
    assert clean(folder)
    assert [value[1:] for value in _values(log)] == [("a", "plain"), ("c", "committed again")]
    markers = [header.base_offset for header in _headers(log) if header.is_control and header.records_count]
    assert markers == [3, 5, 7]
    assert [entry.first_offset for entry in log.transactions.aborted_between(Offset(0), Offset(8))] == [1]
    _put(log, ("z", "1"))
    _roll(folder, log)
    assert clean(folder)
    assert log.transactions.aborted_between(Offset(0), Offset(8)) == [], "no record of it is left"
    folder.advance(1000)
    _put(log, ("z", "2"))
    _roll(folder, log)
    assert clean(folder)
    markers = [header.base_offset for header in _headers(log) if header.is_control and header.records_count]
    assert markers == [7], "the one whose record is still there"


def test_nothing_undecided_is_cleaned(folder: LogFolder) -> None:
    """Records above the high watermark are not cleaned."""
    log = _create(folder)
    for number in range(20):
        log.appender.append_as_leader(batch(key=b"k", value=b"%d" % number), leader_epoch=LeaderEpoch(0), now_ms=NOW_MS)
    assert find_dirtiest(folder) is None
    log.advance_high_watermark(Offset(10))
    assert clean(folder)
    assert {record.offset for record in read_all(log)} >= set(range(10, 20))


def test_a_topic_that_is_not_compacted_is_left_alone(folder: LogFolder) -> None:
    """A log whose cleanup.policy is not compact is not cleaned."""
    log = _create(folder, cleanup_policy=frozenset({"delete"}))
    for number in range(20):
        _put(log, ("k", f"v{number}"))
    assert find_dirtiest(folder) is None


def test_compact_and_delete_does_both(folder: LogFolder) -> None:
    """With compact and delete, old segments are deleted as a whole. Retention waits while the log is being cleaned."""
    log = _create(folder, cleanup_policy=frozenset({"compact", "delete"}), retention_ms=1000)
    for number in range(10):
        append(log, batch(key=b"k", value=b"%d" % number, timestamp_ms=NOW_MS))
    steps = clean_steps(folder)
    folder.advance(5000)

    def keep_house() -> None:
        folder.directory.housekeep(folder.now_ms)
        assert log.log_start_offset == 0

    assert run_with(steps, keep_house)
    folder.directory.housekeep(folder.now_ms)
    assert log.log_start_offset == 10


def test_the_dirtiest_log_comes_first(folder: LogFolder) -> None:
    """The log with the largest share of dirty bytes is cleaned first, as in Kafka."""
    orders = _create(folder, min_cleanable_dirty_ratio=0.1)
    for number in range(10):
        _put(orders, ("k", f"v{number}"))
    assert clean(folder)
    payments = TopicPartition("payments", PartitionIndex(0))
    other = folder.create(payments)
    for number in range(10):
        _put(other, (f"k{number}", "v"))
    assert clean(folder)
    for log, count in ((orders, 10), (other, 6)):
        for number in range(count):
            _put(log, (f"new{number}", "v"))
    found = find_dirtiest(folder)
    assert found is not None
    assert found.log is orders


def test_appends_and_reads_go_on_between_the_steps(folder: LogFolder) -> None:
    """Between the steps of a cleaning, appended records stay, and a reader finds the latest value of each key."""
    log = _create(folder)
    for number in range(30):
        _put(log, (f"k{number % 3}", f"v{number}"))

    def write_and_read() -> None:
        value = f"v{log.log_end_offset}"
        _put(log, ("new", value))
        latest = {record.key: record.value for record in read_all(log)}
        assert latest == {b"k0": b"v27", b"k1": b"v28", b"k2": b"v29", b"new": value.encode()}

    assert run_with(clean_steps(folder), write_and_read)
    assert {record.key for record in read_all(log)} == {b"k0", b"k1", b"k2", b"new"}


def test_a_cleaning_that_is_called_off_leaves_nothing_behind(folder: LogFolder) -> None:
    """A cleaning that is aborted before its swap leaves the log unchanged, and the log can be cleaned again."""
    log = _create(folder)
    for number in range(30):
        _put(log, (f"k{number % 3}", f"v{number}"))
    values = _values(log)
    countdown = iter(range(3, -100, -1))

    def call_off() -> None:
        if next(countdown) == 0:
            folder.directory.cleaner.abort(ORDERS)

    assert not run_with(clean_steps(folder), call_off)
    assert _values(log) == values
    assert _suffixes(log) == set()
    assert clean(folder), "and it can be cleaned again"


def test_a_topic_may_be_deleted_while_it_is_cleaned(folder: LogFolder) -> None:
    """If a topic is deleted, its cleaning ends, and a new topic with the same name starts without a checkpoint."""
    log = _create(folder)
    for number in range(30):
        _put(log, (f"k{number % 3}", f"v{number}"))
    steps = clean_steps(folder)
    next(steps)()
    folder.directory.delete(ORDERS)
    assert run_here(steps) is False
    log = folder.create()
    checkpoint = folder.path / "cleaner-offset-checkpoint"
    assert not checkpoint.exists() or "orders" not in checkpoint.read_text()
    for number in range(30):
        _put(log, (f"k{number % 3}", f"v{number}"))
    assert clean(folder)


@pytest.mark.parametrize(("damaged_byte", "position"), [(65, 0), (80, 76)])
def test_damage_is_found_and_never_made_to_look_sound(
    folder: LogFolder, caplog: pytest.LogCaptureFixture, damaged_byte: int, position: int
) -> None:
    """I8: a cleaning that finds a damaged batch leaves the log unchanged, and the log is not cleaned again.

    The damage is in a byte that the CRC covers, or in an offset, which it does not cover. No damaged byte gets a new
    CRC.
    """
    log = _create(folder)
    for number in range(30):
        _put(log, (f"k{number % 3}", f"v{number}"))
    path = folder.log_files()[1]
    content = bytearray(path.read_bytes())
    content[damaged_byte] ^= 1
    path.write_bytes(content)
    assert not clean(folder)
    assert f"{path} is damaged at position {position}" in caplog.text
    assert path.read_bytes() == content
    assert find_dirtiest(folder) is None
    assert _suffixes(log) == set()


def test_records_that_came_without_a_key_go(folder: LogFolder, caplog: pytest.LogCaptureFixture) -> None:
    """Cleaning removes records without a key, as Kafka does. Such records can only be older than the compact policy."""
    log = _create(folder, cleanup_policy=frozenset({"delete"}))
    append(log, batch(key=None))
    append(log, batch(key=b"k"))
    _roll(folder, log)
    folder.config = replace(folder.config, cleanup_policy=COMPACT)
    log.update_config(folder.config)
    assert clean(folder)
    assert [record.offset for record in read_all(log)] == [1]
    assert "1 records of orders-0 had no key" in caplog.text


KEYS = st.sampled_from([b"a", b"b", b"c", b"d"])
WRITES = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.binary(max_size=8))), min_size=1, max_size=5)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), WRITES, st.sampled_from(list(Compression))),
        st.tuples(st.just("roll")),
        st.tuples(st.just("clean")),
        st.tuples(st.just("crash")),
        st.tuples(st.just("wait")),
    ),
    max_size=25,
)


@settings(max_examples=examples(60), deadline=None)
@given(actions=ACTIONS)
def test_a_reader_from_the_beginning_ends_up_with_the_latest_values(
    actions: list[tuple[Any, ...]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """After any sequence of writes, cleanings and crashes, a full read ends with the latest value of each key.

    No record is altered, moved or invented.
    """
    folder = LogFolder(tmp_path_factory.mktemp("cleaner") / "data")
    _create(folder, segment_bytes=400, delete_retention_ms=10, min_cleanable_dirty_ratio=0.0)
    written: dict[int, tuple[bytes, bytes | None]] = {}
    for action in actions:
        log = folder.log()
        match action:
            case ("write", pairs, codec):
                info = append(log, encode_batch([(NOW_MS, *pair, ()) for pair in pairs], compression=codec))
                written.update(enumerate(pairs, info.first_offset))
            case ("roll",):
                log.roll(folder.now_ms)
            case ("clean",):
                clean(folder)
            case ("crash",):
                folder.crash()
                folder.log().advance_high_watermark(folder.log().log_end_offset)
            case _:
                folder.advance(Random(0).randrange(5, 15))
    log = folder.log()
    kept = read_all(log)
    assert [record.offset for record in kept] == sorted({record.offset for record in kept})
    assert all(written[record.offset] == (record.key, record.value) for record in kept)
    assert log.log_end_offset == len(written)

    def table(pairs: Any) -> dict[bytes, bytes]:
        latest = dict(pairs)
        return {key: value for key, value in latest.items() if value is not None}

    assert table((record.key, record.value) for record in kept) == table(written.values())
    folder.close()


def test_each_log_is_a_step_of_the_search_even_if_it_is_not_compacted(folder: LogFolder) -> None:
    """The search for a log to clean pauses after each log, so that a broker with many uncompacted logs can respond."""
    for partition in range(20):
        folder.create(TopicPartition("orders", PartitionIndex(partition)))
    assert len(list(folder.directory.cleaner.look(folder.now_ms))) >= 20
