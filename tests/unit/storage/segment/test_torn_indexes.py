"""Tests indexes in which a power failure left wrong bytes after valid entries."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.examples import examples
from tests.support.log_folder import NOW_MS, LogFolder, append, batch, found_by_time, read_all

from klamm.core.log.transaction_verification import UNVERIFIED
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.types import LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId
from klamm.storage.log.log import Log
from klamm.storage.log_files import INDEX_SUFFIX, TIME_INDEX_SUFFIX

_ROUNDS = 12
_ENTRY_BYTES = {INDEX_SUFFIX: 8, TIME_INDEX_SUFFIX: 12}


def _fill(log: Log) -> None:
    """Appends rounds of a plain batch, a batch of a transaction, and the marker that aborts it."""
    for number in range(_ROUNDS):
        now_ms = NOW_MS + 1_000 * number
        append(log, batch(2, timestamp_ms=now_ms))
        log.appender.append_as_leader(
            batch(timestamp_ms=now_ms + 1, producer_id=1, epoch=0, sequence=number, is_transactional=True),
            leader_epoch=LeaderEpoch(0),
            now_ms=NOW_MS,
            verification_guard=UNVERIFIED,
        )
        marker = encode_end_transaction_marker(
            EndTransactionMarker(is_commit=False, coordinator_epoch=0),
            producer_id=ProducerId(1),
            producer_epoch=ProducerEpoch(0),
            timestamp_ms=Millis(now_ms + 2),
        )
        log.appender.append_as_leader(marker, leader_epoch=LeaderEpoch(0), now_ms=NOW_MS, from_client=False)
    log.advance_high_watermark(log.log_end_offset)


def _answers(log: Log) -> list[object]:
    """Returns the results of all lookups that use the indexes."""
    offsets = range(log.log_end_offset)
    return [
        [[record.offset for record in read_all(log, offset, 150)] for offset in offsets],
        [log.aborted_transactions(Offset(offset), 200)[:1] for offset in offsets],
        [found_by_time(log.search_timestamp(Millis(NOW_MS + each))) for each in range(-1, 1_000 * _ROUNDS, 499)],
        found_by_time(log.search_max_timestamp()),
    ]


@settings(max_examples=examples(15), deadline=None)
@given(
    suffix=st.sampled_from([INDEX_SUFFIX, TIME_INDEX_SUFFIX]),
    entry=st.integers(0, 20),
    at=st.integers(0, 11),
    value=st.integers(0, 255),
)
@example(suffix=INDEX_SUFFIX, entry=3, at=7, value=0)
@example(suffix=TIME_INDEX_SUFFIX, entry=3, at=7, value=255)
@example(suffix=TIME_INDEX_SUFFIX, entry=0, at=0, value=128)
@example(suffix=INDEX_SUFFIX, entry=0, at=4, value=163)  # to a negative position
@example(suffix=INDEX_SUFFIX, entry=1, at=7, value=126)  # to bytes within a batch that look like another batch's header
def test_wrong_bytes_in_an_index_change_no_answer(
    tmp_path_factory: pytest.TempPathFactory, suffix: str, entry: int, at: int, value: int
) -> None:
    """I8, I11: wrong bytes in an index change no result of a lookup.

    An active segment's index is not synced, so it may be torn below the recovery point, too.
    """
    folder = LogFolder(tmp_path_factory.mktemp("torn") / "data")
    log = folder.create(index_interval_bytes=100)
    _fill(log)
    expected = _answers(log)
    folder.restart()
    append(folder.log())
    folder.log().flush()
    folder.directory.checkpoint().result()
    folder.kill()
    _tear(folder.log_files()[0].with_suffix(suffix), entry * _ENTRY_BYTES[suffix] + at % _ENTRY_BYTES[suffix], value)
    folder.start()
    log = folder.log()
    log.truncate_to(Offset(log.log_end_offset - 1), NOW_MS)
    log.advance_high_watermark(log.log_end_offset)
    assert _answers(log) == expected
    folder.kill()


def _tear(path: Path, position: int, value: int) -> None:
    content = bytearray(path.read_bytes())
    if position < len(content):
        content[position] = value
        path.write_bytes(content)


def test_an_entry_behind_the_end_of_its_segment_hides_nothing(folder: LogFolder) -> None:
    """I9: a time index entry for a record that a power failure took does not change the results of searches."""
    log = folder.create()
    append(log, batch(timestamp_ms=NOW_MS))
    log.roll(NOW_MS)
    folder.directory.wait_for_background()
    first = folder.log_files()[0].with_suffix(TIME_INDEX_SUFFIX)
    folder.directory.close()
    first.write_bytes(first.read_bytes() + struct.pack(">qiqi", NOW_MS + 1, 7, NOW_MS + 9, 9))
    folder.start()
    log = folder.log()
    assert found_by_time(log.search_timestamp(Millis(NOW_MS + 5))) is None
    youngest = found_by_time(log.search_max_timestamp())
    assert youngest is not None
    assert youngest[:2] == (NOW_MS, 0)
