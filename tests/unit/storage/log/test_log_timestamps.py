"""Compares searches by timestamp with a scan of all records."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, found_by_time, read_all

from klamm.protocol.compression import Compression
from klamm.protocol.records import Record, encode_batch
from klamm.protocol.types import Millis, Offset

_BATCHES = st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=5), min_size=1, max_size=25)


def _first(records: list[Record], at_least: int) -> tuple[int, int] | None:
    return next(((record.timestamp_ms, record.offset) for record in records if record.timestamp_ms >= at_least), None)


@settings(max_examples=examples(50), deadline=None)
@given(batches=_BATCHES, start=st.integers(0, 20), restart=st.booleans())
def test_a_timestamp_finds_the_first_record_that_is_no_older(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], start: int, restart: bool
) -> None:
    """A search finds the first remaining record that is not older, with timestamps in any order and over several
    segments.

    A search for the largest timestamp finds the first record that has it.
    """
    folder = LogFolder(tmp_path_factory.mktemp("time") / "data")
    log = folder.create(segment_bytes=600, index_interval_bytes=80)
    for number, timestamps in enumerate(batches):
        codec = Compression.GZIP if number % 3 == 0 else Compression.NONE
        records = [(NOW_MS + timestamp, b"k", b"v", ()) for timestamp in timestamps]
        append(log, encode_batch(records, compression=codec), leader_epoch=number // 4)
    log.delete_records_before(Offset(min(log.high_watermark, start)))
    if restart:
        folder.restart()
        log = folder.log()
    visible = read_all(log)
    for wanted in range(-1, 62):
        found = found_by_time(log.search_timestamp(Millis(NOW_MS + wanted)))
        assert (found[:2] if found else None) == _first(visible, NOW_MS + wanted)
    if start == 0:
        largest = max(record.timestamp_ms for record in visible)
        newest = found_by_time(log.search_max_timestamp())
        assert newest is not None
        assert newest[:2] == _first(visible, largest)
    folder.close()


def test_the_leader_epoch_of_the_record_is_told(folder: LogFolder) -> None:
    """A search by timestamp returns the record's leader epoch, with which a client detects a truncation (KIP-320)."""
    log = folder.create()
    for epoch in (1, 4):
        append(log, batch(timestamp_ms=NOW_MS + epoch), leader_epoch=epoch)
    assert found_by_time(log.search_timestamp(Millis(NOW_MS + 1))) == (NOW_MS + 1, 0, 1)
    assert found_by_time(log.search_timestamp(Millis(NOW_MS + 2))) == (NOW_MS + 4, 1, 4)
    assert found_by_time(log.search_max_timestamp()) == (NOW_MS + 4, 1, 4)


def test_an_empty_log_has_no_records_of_any_time(folder: LogFolder) -> None:
    """In an empty log, every search by timestamp returns None."""
    log = folder.create()
    assert found_by_time(log.search_timestamp(Millis(0))) is None
    assert found_by_time(log.search_max_timestamp()) is None


def test_log_append_time_counts_as_the_records_time(folder: LogFolder) -> None:
    """With LogAppendTime, all records of a batch have its append time, so that a search finds the first of them."""
    log = folder.create(message_timestamp_type="LogAppendTime")
    append(log, batch(3, timestamp_ms=1))
    append(log, batch(3, timestamp_ms=1), now_ms=NOW_MS + 10)
    assert found_by_time(log.search_timestamp(Millis(NOW_MS + 1))) == (NOW_MS + 10, 3, 0)
    assert found_by_time(log.search_max_timestamp()) == (NOW_MS + 10, 3, 0)
