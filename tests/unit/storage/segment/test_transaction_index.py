"""Tests the index of aborted transactions: its file in Kafka's format, and the entries that a Fetch gets from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from klamm.protocol.types import Offset, ProducerId
from klamm.storage.segment.index_file import CorruptIndex
from klamm.storage.segment.transaction_index import AbortedTransaction, TransactionIndex, decode_entries, encode_entries


def _entry(first: int, last: int, stable: int | None = None, producer_id: int = 1) -> AbortedTransaction:
    return AbortedTransaction(
        ProducerId(producer_id), Offset(first), Offset(last), Offset(last + 1 if stable is None else stable)
    )


def _index(path: Path, *entries: AbortedTransaction, base_offset: int = 0) -> TransactionIndex:
    index = TransactionIndex(path / "00000000000000000000.txnindex", base_offset)
    for entry in entries:
        index.append(entry)
    return index


def test_the_file_is_kafkas(tmp_path: Path) -> None:
    """An entry has version, producer id, first offset, last offset and last stable offset: 34 bytes, big-endian."""
    index = _index(tmp_path, _entry(2, 9, 4, producer_id=7))
    index.write()
    assert index.path.read_bytes().hex() == "0000" + "0000000000000007" + "0000000000000002" + (
        "0000000000000009" + "0000000000000004"
    )
    assert list(TransactionIndex(index.path, 0)) == [_entry(2, 9, 4, producer_id=7)]


def test_a_segment_without_aborted_transactions_has_no_file(tmp_path: Path) -> None:
    """An empty index has no file, as in Kafka, and an older file is removed."""
    index = _index(tmp_path)
    index.write()
    assert not index.path.exists()
    index.append(_entry(0, 1))
    index.write()
    assert index.path.exists()
    index.reset()
    index.write()
    assert not index.path.exists()
    assert index.is_empty


def test_entries_that_are_not_written_yet_stay(tmp_path: Path) -> None:
    """An unload keeps entries that are not in the file yet."""
    index = _index(tmp_path, _entry(0, 3))
    index.unload()
    assert list(index) == [_entry(0, 3)]
    index.write()
    index.unload()
    assert index.may_have_entries
    assert list(index) == [_entry(0, 3)]


def test_a_cut_takes_the_transactions_that_end_behind_it(tmp_path: Path) -> None:
    """A truncation removes the transactions whose markers it removes, because they are not aborted any more."""
    index = _index(tmp_path, _entry(0, 3), _entry(1, 8), _entry(5, 9))
    index.write()
    index.truncate_to(8)
    assert list(index) == list(TransactionIndex(index.path, 0)) == [_entry(0, 3)]


@pytest.mark.parametrize(
    "content",
    [
        b"\x00" * 33,
        b"\x00\x01" + b"\x00" * 32,
        encode_entries([_entry(0, 5), _entry(1, 5)]),
        encode_entries([_entry(0, 4)]),
    ],
    ids=["torn", "unknown version", "not rising", "below the segment"],
)
def test_a_file_that_can_not_be_the_segments_is_not_believed(tmp_path: Path, content: bytes) -> None:
    """A malformed file raises CorruptIndex, so that the index is rebuilt from the log."""
    index = _index(tmp_path, base_offset=5)
    index.path.write_bytes(content)
    with pytest.raises(CorruptIndex):
        index.load()


_TRANSACTIONS = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 12)), max_size=12)


@given(_TRANSACTIONS, st.integers(0, 60), st.integers(0, 60))
def test_a_fetch_is_told_of_every_transaction_that_it_overlaps(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], offset: int, upper_bound: int
) -> None:
    """A Fetch gets every aborted transaction that overlaps its range, in whatever order the transactions began.

    The search is complete only if no later entry can overlap the range.
    """
    last = 0
    entries = []
    for step, length in steps:
        last += step
        entries.append((max(0, last - length), last))
    starts = [first for first, _ in entries]
    transactions = [
        _entry(first, last, min([start for start in starts[index + 1 :] if start <= last] + [last + 1]))
        for index, (first, last) in enumerate(entries)
    ]
    index = _index(tmp_path_factory.getbasetemp(), *transactions)
    found, is_complete = index.collect(Offset(offset), Offset(upper_bound))
    overlapping = [each for each in transactions if each.last_offset >= offset and each.first_offset < upper_bound]
    assert found == overlapping
    if is_complete:
        assert any(each.last_stable_offset >= upper_bound for each in transactions)
    assert list(decode_entries(encode_entries(transactions))) == transactions
