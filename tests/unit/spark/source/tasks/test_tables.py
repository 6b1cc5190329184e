"""Tests that tables leave out control batches and aborted transactions, and that a bad CRC is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from tests.unit.spark.source.tasks.test_columns import MakeFiller, compiled, in_numpy

from klamm.client.fetch import FetchedBatches
from klamm.protocol.compression import Compression
from klamm.protocol.control_batch import EndTransactionMarker, encode_end_transaction_marker
from klamm.protocol.errors import KafkaError
from klamm.protocol.record_batch import restamp
from klamm.protocol.records import encode_batch
from klamm.protocol.types import LeaderEpoch, Millis, Offset, ProducerEpoch, ProducerId
from klamm.spark.source.tasks.tables import TableBuilder

Seen = Callable[..., list[int]]


def data(
    offset: int, producer: int = -1, *, transactional: bool = False, codec: Compression = Compression.NONE
) -> bytes:
    return encode_batch(
        [(0, None, b"v", ())] * 5,
        base_offset=offset,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=transactional,
        compression=codec,
    )


def batches_at(*offsets: int) -> list[int]:
    """Returns all offsets of the batches of `data` at the given base offsets."""
    return [offset + index for offset in offsets for index in range(5)]


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    batch = encode_end_transaction_marker(
        EndTransactionMarker(commit, 0),
        producer_id=ProducerId(producer),
        producer_epoch=ProducerEpoch(0),
        timestamp_ms=Millis(0),
    )
    prefix, rest = restamp(batch, Offset(offset), LeaderEpoch(0))
    return prefix + bytes(rest)


@pytest.fixture(params=[compiled, in_numpy])
def make(request: pytest.FixtureRequest) -> MakeFiller:
    """Returns each form of the filler."""
    return cast("MakeFiller", request.param)


@pytest.fixture
def visible(make: MakeFiller) -> Callable[..., list[int]]:
    """Returns a function that gives the visible offsets of a fetched log with the given aborted transactions."""

    def see(log: bytes, aborted: list[tuple[int, int]], *, check_crcs: bool = True, end: int = 1_000) -> list[int]:
        filler = make(1_000, 1 << 20, include_headers=False)
        tables = TableBuilder(0, end, include_headers=False, check_crcs=check_crcs, filler=filler)
        fetched = FetchedBatches(memoryview(log), tuple(aborted), Offset(0))
        return [
            offset for columns in (*tables.add(fetched), *tables.finish()) for offset in columns.offsets.to_pylist()
        ]

    return see


def test_markers_are_never_seen(visible: Seen) -> None:
    """Control batches are never visible, even in a read of uncommitted records, which shows aborted records."""
    log = data(0, 7, transactional=True) + marker(5, 7, commit=False) + data(6)

    assert visible(log, []) == batches_at(0, 6)


def test_an_aborted_transaction_ends_with_its_marker(visible: Seen) -> None:
    """An aborted transaction ends at its marker; the producer's next transaction and other batches are visible."""
    log = (
        data(0, 7, transactional=True)
        + data(5, 8, transactional=True)
        + data(10, 7)
        + marker(15, 7, commit=False)
        + data(16, 7, transactional=True)
        + marker(21, 8, commit=True)
        + marker(22, 7, commit=True)
    )

    assert visible(log, [(7, 0)]) == batches_at(5, 10, 16)


def test_a_transaction_that_began_before_the_answer_is_listed_with_it(visible: Seen) -> None:
    """An aborted transaction that began before the fetched log is listed with its first offset and stays invisible."""
    log = data(5, 7, transactional=True) + marker(10, 7, commit=False) + data(11, 7, transactional=True)

    assert visible(log, [(7, 0), (7, 11)]) == []


def test_a_damaged_batch_is_refused(visible: Seen) -> None:
    """A damaged batch is refused, unless CRC checks are off."""
    log = bytearray(data(0))
    log[-2] ^= 1

    with pytest.raises(KafkaError, match=r"CRC of the batch at offset 0.*kafka\.check\.crcs"):
        visible(bytes(log), [])
    assert visible(bytes(log), [], check_crcs=False) == batches_at(0)


@pytest.mark.parametrize("codec", Compression)
def test_every_codec_is_opened(visible: Seen, codec: Compression) -> None:
    """Batches of every codec are read, in transactions and next to uncompressed batches, up to the requested end."""
    log = (
        data(0, codec=codec)
        + data(5, 7, transactional=True, codec=codec)
        + data(10, 8, transactional=True, codec=codec)
        + data(15)
        + data(20, codec=codec)
    )

    assert visible(log, [(7, 5)]) == batches_at(0, 10, 15, 20)
    assert visible(log, [], end=12) == list(range(12))


def test_a_gap_is_no_loss(visible: Seen) -> None:
    """A gap in the offsets is no loss; the log cleaner removes batches, or leaves a batch without records."""
    empty = bytearray(data(5)[:61])
    empty[8:12] = (49).to_bytes(4, "big")
    empty[57:61] = bytes(4)

    assert visible(data(0) + empty + data(500), [], check_crcs=False) == batches_at(0, 500)


@pytest.mark.parametrize("magic", [0, 1])
def test_a_batch_of_an_old_format_is_named(visible: Seen, magic: int) -> None:
    """A batch of an old format, which ended with Kafka 4, is refused with an error that names its magic."""
    old = bytearray(data(0))
    old[16] = magic

    with pytest.raises(KafkaError, match=f"magic {magic}"):
        visible(bytes(old), [])
