"""Tests a segment: its index entries, when it is rolled, and lookups in it."""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct

import pytest
from tests.support.log_folder import NOW_MS, batch

from klamm.protocol.record_batch import HEADER_SIZE_BYTES
from klamm.protocol.types import Millis, Offset
from klamm.storage.log_files import file_name
from klamm.storage.segment.file_pool import FilePool
from klamm.storage.segment.segment import Segment, SegmentSettings
from klamm.storage.segment.segment_search import find_batch, last_batch_end, read_next_offset

BASE = Offset(100)
PREFIX = Struct(">qii")


@pytest.fixture
def settings() -> SegmentSettings:
    """Returns settings with an index entry about every 200 bytes."""
    return SegmentSettings(FilePool(2), index_interval_bytes=200, max_index_bytes=80, roll_jitter_ms=0)


@pytest.fixture
def segment(tmp_path: Path, settings: SegmentSettings) -> Segment:
    """Returns an empty segment."""
    return Segment.create(tmp_path, BASE, settings, created_ms=NOW_MS)


def _append(segment: Segment, offset: int, records: bytes | None = None, timestamp: int = NOW_MS) -> int:
    records = records if records is not None else batch(value=bytes(20), timestamp_ms=timestamp)
    count = Struct(">i").unpack_from(records, HEADER_SIZE_BYTES - 4)[0]
    prefix = PREFIX.pack(offset, len(records) - 12, 0)
    segment.append(prefix, memoryview(records)[16:], offset + count - 1, timestamp)
    return len(records)


def _entries(segment: Segment) -> list[tuple[int, int]]:
    return [(BASE + offset, position) for offset, position in Struct(">ii").iter_unpack(segment.offset_index.data)]


def test_a_new_segment_has_its_three_files(segment: Segment) -> None:
    """A new segment has a log and two indexes, because Kafka treats a segment without an index as damaged."""
    names = sorted(path.name for path in segment.directory.iterdir())
    assert names == [file_name(100, suffix) for suffix in (".index", ".log", ".timeindex")]


def test_an_entry_is_made_when_more_than_the_interval_went_by(segment: Segment) -> None:
    """After each interval, the next batch gets an index entry: its last offset and position (Kafka:
    LogSegment.append)."""
    size = 0
    for offset in range(100, 110):
        size = _append(segment, offset)
    interval = 200 // size + 1
    assert _entries(segment) == [(100 + number, number * size) for number in range(interval, 10, interval)]


def test_the_time_index_follows_the_largest_timestamp(segment: Segment) -> None:
    """A time index entry has the largest timestamp so far and the last offset of its batch."""
    for offset, timestamp in [(100, 10), (101, 50), (102, 30), (103, 20), (104, 60)]:
        _append(segment, offset, batch(value=bytes(200), timestamp_ms=timestamp), timestamp)
    entries = [(timestamp, BASE + offset) for timestamp, offset in Struct(">qi").iter_unpack(segment.time_index.data)]
    assert entries == [(50, 101), (60, 104)]
    assert segment.max_timestamp == 60
    assert segment.offset_of_max_timestamp == 104


def test_sealing_adds_the_largest_timestamp(segment: Segment) -> None:
    """Sealing adds an entry with the largest timestamp, from which Kafka takes the age of a segment."""
    _append(segment, 100, timestamp=77)
    segment.seal()
    segment.write_indexes()
    segment.close()
    again = Segment(
        segment.directory,
        BASE,
        SegmentSettings(FilePool(2), index_interval_bytes=1, max_index_bytes=80),
        created_ms=NOW_MS,
        size_bytes=segment.size_bytes,
    )
    assert (again.max_timestamp, again.offset_of_max_timestamp) == (77, 100)
    assert again.largest_timestamp() == 77
    again.close()


def test_without_timestamps_the_files_age_counts(segment: Segment) -> None:
    """Without timestamps, `largest_timestamp` returns the modification time of the file."""
    _append(segment, 100, timestamp=-1)
    assert segment.largest_timestamp() == segment.path.stat().st_mtime_ns // 1_000_000


@pytest.mark.parametrize(
    ("last_offset", "batch_bytes", "timestamp", "is_rolled"),
    [
        (101, 900, NOW_MS, False),
        (101, 1000, NOW_MS, True),
        (101, 10, NOW_MS + 5000, False),
        (101, 10, NOW_MS + 5001, True),
        (100 + 2**31 - 1, 10, NOW_MS, False),
        (100 + 2**31, 10, NOW_MS, True),
    ],
)
def test_it_is_rolled_for_size_age_and_distance(
    segment: Segment, last_offset: int, batch_bytes: int, timestamp: int, is_rolled: bool
) -> None:
    """A segment is rolled for its size, its age, or a relative offset that does not fit into 32 bits.

    The age is the time from the timestamp of the first batch to that of the next batch.
    """
    _append(segment, 100)
    assert is_rolled == segment.should_roll(
        batch_bytes, last_offset, timestamp, now_ms=NOW_MS, max_segment_bytes=1000, max_segment_ms=5000
    )


def test_it_is_rolled_when_an_index_is_full(segment: Segment) -> None:
    """A segment is rolled when one of its indexes is full.

    80 bytes are ten entries of the offset index, but six of the time index, one of which is kept for the roll.
    """
    for number in range(6):
        assert not segment.should_roll(10, 200, NOW_MS, now_ms=NOW_MS, max_segment_bytes=10**6, max_segment_ms=5000)
        _append(segment, 100 + number, batch(value=bytes(300), timestamp_ms=NOW_MS + number), NOW_MS + number)
    assert segment.should_roll(10, 200, NOW_MS, now_ms=NOW_MS, max_segment_bytes=10**6, max_segment_ms=5000)


def test_without_timestamps_the_clock_tells_its_age(segment: Segment) -> None:
    """Without timestamps, the age of a segment is the time since its creation; an empty segment is never too old."""
    later = Millis(NOW_MS + 5001)
    assert not segment.should_roll(10, 100, -1, now_ms=later, max_segment_bytes=1000, max_segment_ms=5000)
    _append(segment, 100, timestamp=-1)
    assert segment.should_roll(10, 101, -1, now_ms=later, max_segment_bytes=1000, max_segment_ms=5000)


def test_batches_are_found_through_the_index(segment: Segment) -> None:
    """Each batch is found by any of its offsets."""
    offset, position = 100, 0
    bounds = []
    for count in (1, 3, 2, 5, 1, 7, 4, 2, 2, 6):
        size = _append(segment, offset, batch(count, value=bytes(30)))
        bounds.append((offset, offset + count - 1, position, position + size))
        offset, position = offset + count, position + size
    for first, last, start, end in bounds:
        for wanted in range(first, last + 1):
            found = find_batch(segment, wanted)
            assert found is not None
            assert (found.position, found.end, found.base_offset, found.last_offset) == (start, end, first, last)
    assert find_batch(segment, offset) is None
    assert read_next_offset(segment) == offset
    for limit in range(position + 1):
        whole = [bound for bound in bounds if bound[3] <= limit]
        end, next_offset = last_batch_end(segment, 0, limit)
        assert (end, next_offset) == ((whole[-1][3], whole[-1][1] + 1) if whole else (0, None))


def test_truncating_leaves_what_is_before(segment: Segment) -> None:
    """A truncation keeps the batches before the offset, and the largest timestamp is that of the remaining batches."""
    for number in range(8):
        _append(segment, 100 + number, batch(value=bytes(90), timestamp_ms=number * 10), number * 10)
    found = find_batch(segment, 105)
    assert found is not None
    segment.truncate(found.position, Offset(found.base_offset))
    assert read_next_offset(segment) == 105
    assert (segment.max_timestamp, segment.offset_of_max_timestamp) == (40, 104)
    assert all(offset < 105 for offset, _ in _entries(segment))
    _append(segment, 105)
    assert read_next_offset(segment) == 106


def test_the_pool_closes_the_file_that_was_used_least(tmp_path: Path, settings: SegmentSettings) -> None:
    """A segment whose file the pool closed opens it again at the next use."""
    segments = [Segment.create(tmp_path, Offset(base), settings, created_ms=NOW_MS) for base in (0, 10, 20)]
    for segment in segments * 3:
        _append(segment, read_next_offset(segment))
    assert len(settings.pool) == 2
    assert [read_next_offset(segment) for segment in segments] == [3, 13, 23]
    for segment in segments:
        segment.close()
    assert len(settings.pool) == 0


def test_retired_files_keep_their_bytes_under_another_name(segment: Segment) -> None:
    """A retired segment's files are renamed and removed later, so that readers can finish."""
    _append(segment, 100)
    retired = segment.retire()
    assert sorted(path.name for path in segment.directory.iterdir()) == sorted(path.name for path in retired)
    assert all(path.name.endswith(".deleted") for path in retired)


def test_a_short_write_is_gone_on_with(segment: Segment, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a short write, as on a nearly full disk, the segment writes the rest."""
    pwritev = os.pwritev

    def a_little(descriptor: int, buffers: tuple[bytes | memoryview, ...], position: int) -> int:
        return pwritev(descriptor, [b"".join(buffers)[:7]], position)

    monkeypatch.setattr(os, "pwritev", a_little)
    records = batch(3, value=bytes(50))
    _append(segment, 100, records)
    assert segment.path.read_bytes()[16:] == records[16:]
