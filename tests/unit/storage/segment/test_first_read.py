"""Tests that bits which flipped on the disk are found at the first read, and are never served."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, found_by_time, read_all, read_bytes

from klamm.protocol.errors import ErrorCode, KafkaError
from klamm.protocol.records import Record, decode_records
from klamm.protocol.types import Millis, Offset
from klamm.storage.recovery.recovery_progress import RecoveryProgress

BATCHES = 40
BATCH_BYTES = len(batch(value=b"00"))
_UNCOVERED_BYTES = 16
"""Size of the base offset, length and leader epoch, which a batch's CRC does not cover."""
_LAST_OFFSET_DELTA = range(23, 27)
"""The bytes of a batch's header from which its last offset follows."""


def _filled(path: Path, *, segment_bytes: int = 1000) -> LogFolder:
    folder = LogFolder(path / "data")
    log = folder.create(segment_bytes=segment_bytes, index_interval_bytes=100)
    for number in range(BATCHES):
        append(log, batch(value=b"%02d" % number), now_ms=NOW_MS + number)
    return folder


def _flip(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


@settings(max_examples=examples(30), deadline=None)
@given(
    hit=st.integers(0, BATCHES - 2),
    at=st.integers(_UNCOVERED_BYTES, BATCH_BYTES - 1),
    start=st.integers(0, BATCHES - 1),
    step=st.integers(1, 400),
)
@example(hit=0, at=_UNCOVERED_BYTES, start=0, step=1)
@example(hit=BATCHES - 2, at=_LAST_OFFSET_DELTA.start, start=0, step=1)
@example(hit=BATCHES - 2, at=_LAST_OFFSET_DELTA.stop, start=0, step=1)
def test_a_flipped_bit_is_never_served(
    tmp_path_factory: pytest.TempPathFactory, hit: int, at: int, start: int, step: int
) -> None:
    """I8, I9: after a clean stop, a reader at any offset receives only records as they were written.

    The damaged batch takes the log offline when it is met, and the reason names file, offset and position. That is at
    a read, or already at the start, which compares the last offset of each segment with the index and the next segment.
    """
    folder = _filled(tmp_path_factory.mktemp("flip"))
    sizes = [path.stat().st_size for path in folder.log_files()]
    before = read_all(folder.log())
    folder.directory.close()
    size = sum(sizes) // BATCHES
    index, position = next(
        (index, hit * size - sum(sizes[:index])) for index in range(len(sizes)) if hit * size < sum(sizes[: index + 1])
    )
    path = folder.log_files()[index]
    assert size == BATCH_BYTES
    _flip(path, position + at)
    folder.start()
    log = folder.log()
    ends_a_segment = position + size == sizes[index]
    assert log.is_offline == (ends_a_segment and at in _LAST_OFFSET_DELTA)
    offset = Offset(start)
    served: list[Record] = []

    def read_to_the_end_and_then_from_the_beginning() -> None:
        nonlocal offset
        for _ in range(2):
            while offset < log.log_end_offset:
                data = log.read(offset, step, upper_bound=log.log_end_offset, minimum_one_batch=True)
                served.extend(record for record in decode_records(memoryview(data)) if record.offset >= offset)
                offset = Offset(served[-1].offset + 1)
            offset = Offset(0)

    with pytest.raises(KafkaError) as refused:
        read_to_the_end_and_then_from_the_beginning()
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert all(record == before[record.offset] for record in served)
    assert all(record.offset != hit for record in served)
    assert log.is_offline
    assert f"{path} is damaged at offset {hit}, position {position}: " in (log.offline_reason or "")
    folder.kill()


def test_damage_that_an_append_meets_takes_the_log_offline(tmp_path: Path) -> None:
    """I8: the first append reads the timestamps of the segment, and a damaged batch takes the log offline."""
    folder = LogFolder(tmp_path / "data")
    log = folder.create(index_interval_bytes=0)
    for _ in range(3):
        append(log)
    folder.directory.close()
    path = folder.log_files()[0]
    _flip(path, _UNCOVERED_BYTES)
    folder.start()
    with pytest.raises(KafkaError) as refused:
        append(folder.log())
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert f"{path} is damaged at offset 0, position 0: " in (folder.log().offline_reason or "")
    folder.kill()


@pytest.mark.parametrize("at", ["the value", "the number of records"])
def test_a_damaged_batch_is_no_answer_to_a_search_by_time(tmp_path: Path, at: str) -> None:
    """I8: a search by time checks each batch that it opens. A damaged batch takes the log offline.

    This holds whether or not the records of the batch can still be decoded.
    """
    folder = LogFolder(tmp_path / "data")
    log = folder.create()
    for number in range(3):
        append(log, batch(timestamp_ms=NOW_MS + number))
    size = log.size_bytes // 3
    folder.directory.close()
    path = folder.log_files()[0]
    _flip(path, 2 * size - 2 if at == "the value" else size + 60)
    folder.start()
    log = folder.log()
    with pytest.raises(KafkaError) as refused:
        found_by_time(log.search_timestamp(Millis(NOW_MS + 1)))
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert f"{path} is damaged at offset 1, position {size}: " in (log.offline_reason or "")
    folder.kill()


def test_each_byte_is_checked_once(tmp_path: Path) -> None:
    """A log checks each byte only at the first read, and does not check bytes that it wrote itself."""
    folder = _filled(tmp_path, segment_bytes=100_000)
    segments = list(folder.log()._segments)
    assert [segment.unchecked_end for segment in segments] == [0]
    folder.restart()
    (segment,) = folder.log()._segments
    assert segment.unchecked_end == segment.size_bytes
    read_bytes(folder.log(), max_bytes=300)
    assert segment.unchecked_end == 0
    _flip(folder.log_files()[0], segment.size_bytes - 1)
    assert len(read_bytes(folder.log())) == segment.size_bytes
    folder.close()


def test_after_a_crash_only_what_may_be_missing_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recovery begins near the recovery point, also in the active segment, and uses the index on the disk."""
    folder = _filled(tmp_path, segment_bytes=100_000)
    size = folder.log().size_bytes
    folder.restart()
    append(folder.log(), batch(value=b"after"))
    read: list[int] = []
    monkeypatch.setattr(RecoveryProgress, "read", lambda self, size_bytes: read.append(size_bytes))
    index = folder.log_files()[0].with_suffix(".index")
    before = index.read_bytes()
    folder.crash()
    log = folder.log()
    assert log.log_end_offset == BATCHES + 1
    assert sum(read) < size / 4
    assert index.read_bytes()[: len(before)] == before
    assert [record.offset for record in read_all(log)] == list(range(BATCHES + 1))
    assert found_by_time(log.search_timestamp(Millis(NOW_MS + 1))) is None
    folder.close()


@pytest.mark.parametrize("index_name", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", ["zeros", "gone", "cut"])
def test_an_index_that_a_crash_harmed_is_not_relied_on(tmp_path: Path, index_name: str, damage: str) -> None:
    """A missing, cut or partly zeroed index is rebuilt from the log after a crash."""
    folder = _filled(tmp_path, segment_bytes=100_000)
    folder.restart()
    path = folder.log_files()[0].with_suffix(index_name)
    whole = path.read_bytes()
    append(folder.log(), batch(value=b"after"))
    folder.kill()
    if damage == "gone":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(whole[: len(whole) // 24 * 12])
    else:
        path.write_bytes(bytes(24) + whole[24:])
    folder.start()
    log = folder.log()
    assert [record.offset for record in read_all(log)] == list(range(BATCHES + 1))
    for offset in range(BATCHES + 1):
        assert read_all(log, offset)[0].offset == offset
    folder.close()
