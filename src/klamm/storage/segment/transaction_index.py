"""The transaction index of a segment: the aborted transactions whose abort marker is in the segment (KIP-98).

A read_committed consumer gets these entries with the records, and skips the aborted records. An entry has 34 bytes:
version 2, producer id 8, first offset 8, last offset (that of the marker) 8, last stable offset after the marker 8.
Last offsets rise. A segment without such a marker has no index file.

Like the other indexes it is kept in memory, and written when the segment is rolled, flushed or closed. Recovery
rebuilds it where a crash may have cut it short (see `producer_recovery`).

Source: `storage/internals/log/TransactionIndex.java`, `AbortedTxn.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from struct import Struct
from typing import ClassVar, Final, NamedTuple

from klamm.core.log.ongoing_transactions import CompletedTransaction, OngoingTransactions
from klamm.protocol.types import Offset, ProducerId
from klamm.storage.segment.index_file import CorruptIndex, IndexFile

__all__ = ["AbortedTransaction", "TransactionIndex", "decode_entries", "encode_entries"]

_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0
_LAST_OFFSET: Final = Struct(">q")
_LAST_OFFSET_AT: Final = 18


class AbortedTransaction(NamedTuple):
    """An aborted transaction in one partition.

    `first_offset` is the offset of its first record, `last_offset` that of its marker. `last_stable_offset` is the last
    stable offset after the marker was written: no later entry overlaps offsets below it.
    """

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset

    @classmethod
    def from_completed(cls, completed: CompletedTransaction, transactions: OngoingTransactions) -> AbortedTransaction:
        """Returns the index entry of a transaction that was just aborted; `transactions` must still contain it as
        ongoing."""
        return cls(
            completed.producer_id,
            completed.first_offset,
            completed.last_offset,
            transactions.last_stable_offset_after(completed),
        )


class TransactionIndex(IndexFile):
    """The entries of one segment's index; without a file there are none.

    Methods raise `CorruptIndex` for a file that can't belong to the segment, OSError.
    """

    ENTRY: ClassVar[Struct] = _ENTRY

    __slots__ = ()

    def __init__(self, path: Path, base_offset: int) -> None:
        super().__init__(path, base_offset, 0)  # its size is not limited

    def _load(self) -> bytearray:
        if not self.path.exists():
            self._data = bytearray()
            self._written_bytes = 0
            return self._data
        return super()._load()

    @property
    def may_have_entries(self) -> bool:
        """Whether the index has entries; True if it was not read yet."""
        return self._data is None or bool(self._data)

    def append(self, transaction: AbortedTransaction) -> None:
        """Appends a transaction. Its last offset must be above those of the existing entries."""
        self.data.extend(_ENTRY.pack(_VERSION, *transaction))

    def __iter__(self) -> Iterator[AbortedTransaction]:
        """Yields all entries, in the order of their last offsets."""
        return decode_entries(bytes(self.data))

    @property
    def is_empty(self) -> bool:
        """Whether the segment has no abort marker."""
        return not self.data

    def collect(self, fetch_offset: Offset, upper_bound: Offset) -> tuple[list[AbortedTransaction], bool]:
        """Returns the entries that overlap the offsets from `fetch_offset` up to but without `upper_bound`.

        The second value is True if no later segment can have more such entries.
        """
        data = self.data
        count = len(data) // _ENTRY.size
        first = bisect_left(
            range(count),
            int(fetch_offset),
            key=lambda entry: int(_LAST_OFFSET.unpack_from(data, entry * _ENTRY.size + _LAST_OFFSET_AT)[0]),
        )
        found = []
        for entry in range(first, count):
            transaction = _decode(data, entry * _ENTRY.size)
            if transaction.first_offset < upper_bound:
                found.append(transaction)
            if transaction.last_stable_offset >= upper_bound:
                return found, True
        return found, False

    def truncate_to(self, offset: int) -> None:
        """Removes the transactions that end at `offset` or above."""
        self._cut(sum(transaction.last_offset < offset for transaction in self))

    def check(self, data: bytearray) -> None:
        """Raises `CorruptIndex` for an unknown version, or if last offsets don't rise from the segment's base
        offset."""
        previous = self.base_offset - 1
        for version, _, _, last_offset, _ in _ENTRY.iter_unpack(data):
            if version > _VERSION:
                raise CorruptIndex(self.base_offset, f"{self.path} has an entry of version {version}")
            if last_offset <= previous:
                raise CorruptIndex(
                    self.base_offset,
                    f"{self.path} has a transaction that ends at offset {last_offset}, which is not above {previous}",
                )
            previous = last_offset

    def unload(self) -> None:
        """Frees the memory, unless there are unwritten entries or none at all: an empty index stays known as empty."""
        if self._data:
            super().unload()

    def write(self) -> None:
        """Updates the file; an index without entries has no file. Raises OSError.

        A rebuilt index replaces its file atomically.
        """
        if self._data is not None and not self._data:
            self.path.unlink(missing_ok=True)
            self._written_bytes = 0
        elif self._data is not None and self._written_bytes < 0:
            self.replace_file()
        else:
            super().write()


def encode_entries(transactions: Iterable[tuple[ProducerId, Offset, Offset, Offset]]) -> bytes:
    """Returns the content of an index file."""
    return b"".join(_ENTRY.pack(_VERSION, *transaction) for transaction in transactions)


def decode_entries(content: bytes) -> Iterator[AbortedTransaction]:
    """Yields the entries of an index file, ignoring an incomplete last one."""
    for at in range(0, len(content) - _ENTRY.size + 1, _ENTRY.size):
        yield _decode(content, at)


def _decode(data: bytes | bytearray, at: int) -> AbortedTransaction:
    _, producer_id, first_offset, last_offset, last_stable_offset = _ENTRY.unpack_from(data, at)
    return AbortedTransaction(
        ProducerId(producer_id), Offset(first_offset), Offset(last_offset), Offset(last_stable_offset)
    )
