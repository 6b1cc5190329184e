"""Applications see neither control batches, nor what an aborted transaction wrote, nor anything with a bad CRC."""

from __future__ import annotations

import pytest

from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import iterate_batches, restamp
from klamm.protocol.records import encode_batch
from klamm.protocol.types import LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId
from klamm.spark.source.visible import visible_batches


def data(offset: int, producer: int = -1, *, transactional: bool = False) -> bytes:
    return encode_batch(
        [(0, None, b"v", ())] * 5,
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=transactional,
    )


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    batch = encode_end_transaction_marker(
        EndTransactionMarker(commit, 0),
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=Millis(0),
    )
    prefix, rest = restamp(batch, Offset(offset), LeaderEpoch(0))
    return prefix + bytes(rest)


def visible(log: bytes, aborted: list[tuple[int, int]], *, check_crcs: bool = True) -> list[int]:
    view = memoryview(log)
    batches = [(header, view[start : start + header.size_bytes]) for start, header in iterate_batches(view)]
    return [batch.header.base_offset for batch in visible_batches(batches, aborted, check_crcs=check_crcs)]


def test_markers_are_never_seen() -> None:
    """Nor in a read of uncommitted records, where what was aborted is."""
    log = data(0, 7, transactional=True) + marker(5, 7, commit=False) + data(6)

    assert visible(log, []) == [0, 6]


def test_an_aborted_transaction_ends_with_its_marker() -> None:
    """The same producer's next transaction is seen, and so are others and plain batches in between."""
    log = (
        data(0, 7, transactional=True)
        + data(5, 8, transactional=True)
        + data(10, 7)
        + marker(15, 7, commit=False)
        + data(16, 7, transactional=True)
        + marker(21, 8, commit=True)
        + marker(22, 7, commit=True)
    )

    assert visible(log, [(7, 0)]) == [5, 10, 16]


def test_a_transaction_that_began_before_the_answer_is_listed_with_it() -> None:
    """Its first offset lies below the first batch."""
    log = data(5, 7, transactional=True) + marker(10, 7, commit=False) + data(11, 7, transactional=True)

    assert visible(log, [(7, 0), (7, 11)]) == []


def test_a_damaged_batch_is_refused() -> None:
    """Unless the CRC is not to be looked at."""
    log = bytearray(data(0))
    log[-2] ^= 1

    with pytest.raises(KafkaError, match=r"CRC of the batch at offset 0.*kafka\.check\.crcs"):
        visible(bytes(log), [])
    assert visible(bytes(log), [], check_crcs=False) == [0]
