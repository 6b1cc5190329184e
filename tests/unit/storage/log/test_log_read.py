"""Tests reads of whole batches, from any offset, up to any bound."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, found_by_time, read_all

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.record_batch import iterate_batches
from klamm.protocol.types import Millis, Offset, PartitionIndex, TopicPartition
from klamm.storage.log.log import Log

COUNTS = [1, 4, 2, 9, 1, 1, 6, 3, 2, 5, 1, 8]
ENDS = [sum(COUNTS[: index + 1]) for index in range(len(COUNTS))]
END = ENDS[-1]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Returns a log with batches of several sizes in several segments, and with some index entries."""
    folder = LogFolder(tmp_path_factory.mktemp("read") / "data")
    log = folder.create(segment_bytes=1500, index_interval_bytes=150)
    for count in COUNTS:
        append(log, batch(count, value=bytes(10 * count)))
    assert log.segment_count > 2
    return log


@given(
    offset=st.integers(0, END),
    max_bytes=st.integers(0, 4000),
    upper_bound=st.sampled_from([0, *ENDS]),
    minimum_one_batch=st.booleans(),
)
def test_a_read_returns_the_whole_batches_that_fit(
    log: Log, offset: int, max_bytes: int, upper_bound: int, minimum_one_batch: bool
) -> None:
    """A read returns whole batches from the offset's batch on, up to the bound (I5) or to the segment's end."""
    data = log.read(Offset(offset), max_bytes, upper_bound=Offset(upper_bound), minimum_one_batch=minimum_one_batch)
    batches = [header for _, header in iterate_batches(data)]
    assert sum(header.size_bytes for header in batches) == len(data)
    assert len(data) <= max_bytes or (minimum_one_batch and len(batches) == 1)
    if not batches:
        first = next((end for end in ENDS if end > offset), None)
        assert offset >= upper_bound or first is None or not minimum_one_batch
        return
    assert batches[0].base_offset <= offset <= batches[0].last_offset
    assert batches[-1].next_offset <= upper_bound
    following = batches[-1].next_offset
    if following < upper_bound:
        more = log.read(following, 10**6, upper_bound=Offset(upper_bound), minimum_one_batch=True)
        next_size = next(iterate_batches(more))[1].size_bytes
        is_next_segment = (log.directory / f"{following:020d}.log").exists()
        assert is_next_segment or len(data) + next_size > max_bytes


@pytest.mark.parametrize("max_bytes", [1, 100, 500, 10**6])
def test_reading_on_and_on_finds_everything_once(log: Log, max_bytes: int) -> None:
    """Consecutive reads of any size return each record once."""
    assert [record.offset for record in read_all(log, max_bytes=max_bytes)] == list(range(END))


def test_an_offset_outside_the_log_is_out_of_range(log: Log) -> None:
    """A read at the log end returns no records, and a read outside the log fails with OFFSET_OUT_OF_RANGE."""
    assert log.read(Offset(END), 100, upper_bound=Offset(END), minimum_one_batch=True) == b""
    for offset in (-1, END + 1):
        with pytest.raises(KafkaError) as refused:
            log.read(Offset(offset), 100, upper_bound=Offset(END), minimum_one_batch=True)
        assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_reader_at_the_end_gets_each_batch_as_it_comes(folder: LogFolder) -> None:
    """A reader at the log end receives each new batch, also across rolls."""
    log = folder.create(segment_bytes=400)
    for number in range(20):
        append(log, batch(2))
        data = log.read(Offset(2 * number), 10**6, upper_bound=log.high_watermark, minimum_one_batch=False)
        assert [header.base_offset for _, header in iterate_batches(data)] == [2 * number]
    assert log.segment_count > 2


def test_an_index_that_vanishes_is_built_anew(folder: LogFolder) -> None:
    """An index that vanishes after a restart is rebuilt by the next read."""
    folder.create(segment_bytes=2000, index_interval_bytes=100)
    for _ in range(40):
        append(folder.log())
    folder.restart()
    index = folder.log_files()[0].with_suffix(".index")
    content = index.read_bytes()
    index.unlink()
    assert len(read_all(folder.log(), 7)) == 33
    assert index.read_bytes() == content


@pytest.mark.parametrize(
    "look",
    [
        lambda log: log.read(Offset(2), 10**6, upper_bound=Offset(3), minimum_one_batch=True),
        lambda log: found_by_time(log.search_timestamp(Millis(NOW_MS + 2))),
        lambda log: found_by_time(log.search_max_timestamp()),
    ],
    ids=["read", "search by time", "largest timestamp"],
)
def test_a_damaged_file_is_reported_not_returned(folder: LogFolder, look: Callable[[Log], object]) -> None:
    """A damaged batch takes the log offline, and the reason names file, offset and position."""
    log = folder.create()
    for number in range(3):
        append(log, batch(timestamp_ms=NOW_MS + number))
    size = log.size_bytes // 3
    with folder.log_files()[0].open("r+b") as file:
        file.seek(size + 8)
        file.write(b"\x7f\xff\xff\xff")
    with pytest.raises(KafkaError) as refused:
        look(log)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert f"{folder.log_files()[0]} is damaged at offset 1, position {size}: " in (log.offline_reason or "")


def test_a_hundred_logs_share_few_descriptors(tmp_path: Path) -> None:
    """Logs close and open their files as needed, and stay within the limit of open files."""
    folder = LogFolder(tmp_path / "data", open_files=8)
    before = len(os.listdir("/proc/self/fd"))
    logs = [folder.create(TopicPartition("many", PartitionIndex(index))) for index in range(100)]
    for _ in range(3):
        for log in logs:
            append(log)
    assert len(os.listdir("/proc/self/fd")) - before <= 8
    assert all(len(read_all(log)) == 3 for log in logs)
    folder.close()


_LOGS = st.lists(st.integers(1, 12), min_size=1, max_size=40)


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=examples(40),
    deadline=None,
)
@given(counts=_LOGS, segment_bytes=st.integers(800, 3000), interval=st.integers(0, 1000), data=st.data())
def test_any_log_reads_back_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], segment_bytes: int, interval: int, data: st.DataObject
) -> None:
    """I9: records are read as they were written, from any offset, over rolls and a restart."""
    folder = LogFolder(tmp_path_factory.mktemp("any") / "data")
    log = folder.create(segment_bytes=segment_bytes, index_interval_bytes=interval)
    for number, count in enumerate(counts):
        append(log, batch(count, value=b"%d" % number))
    expected = [b"%d" % number for number, count in enumerate(counts) for _ in range(count)]
    assert [record.value for record in read_all(log)] == expected
    folder.restart()
    start = data.draw(st.integers(0, len(expected) - 1))
    found = [record.value for record in read_all(folder.log(), start, max_bytes=data.draw(st.integers(1, 2000)))]
    assert found == expected[start:]
    folder.close()


@pytest.mark.parametrize("is_known", [False, True], ids=["where it lies is not known", "where it lies is remembered"])
def test_a_closed_log_is_not_read(tmp_path: Path, is_known: bool) -> None:
    """A read of a closed log, as while the broker stops, fails and opens no file."""
    log = LogFolder(tmp_path / "data").create()
    append(log, batch(1))
    append(log, batch(1))
    if is_known:
        log.read(Offset(0), 1, upper_bound=Offset(2), minimum_one_batch=True)
    log.close()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(KafkaError, match="is closed") as refused:
        log.read(Offset(1), 1000, upper_bound=Offset(2), minimum_one_batch=True)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert log.reader.file_ranges(Offset(0), 1000) == []
    assert len(os.listdir("/proc/self/fd")) == before
