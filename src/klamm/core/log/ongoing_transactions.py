"""The transactions of one log without a marker, and those whose marker may not be replicated yet (KIP-98).

Together they decide how far a read_committed consumer may read: the last stable offset.

Source: `storage/internals/log/ProducerStateManager.java` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import NamedTuple

from klamm.protocol.types import Offset, ProducerId

__all__ = ["CompletedTransaction", "OngoingTransactions"]


class CompletedTransaction(NamedTuple):
    """A transaction that a marker ended in one partition, with the offsets of its first record and of the marker."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    is_aborted: bool


class OngoingTransactions:
    """The transactions of one log that affect its last stable offset."""

    __slots__ = ("_decided", "_ongoing")

    def __init__(self) -> None:
        # By first offset, ascending. Not a dict: each deleted key before the first one makes finding it slower.
        self._ongoing: OrderedDict[int, ProducerId] = OrderedDict()
        self._decided: list[tuple[int, int]] = []
        """First and last offset; a heap. Entries below the high watermark stay until they are at its top."""

    def __len__(self) -> int:
        """Returns how many transactions may hold back the last stable offset."""
        return len(self._ongoing) + len(self._decided)

    def __bool__(self) -> bool:
        """Returns whether any transaction may hold back the last stable offset."""
        return bool(self._ongoing or self._decided)

    def begin(self, producer_id: ProducerId, first_offset: Offset) -> None:
        """Adds a transaction that begins at `first_offset`, which must be above those of all earlier ones."""
        self._ongoing[first_offset] = producer_id

    def complete(self, completed: CompletedTransaction, high_watermark: Offset) -> None:
        """Marks a transaction as decided; it is stable once the high watermark has passed its marker.

        Also drops the transactions that are stable by now, even if no caller reads the last stable offset.
        """
        del self._ongoing[completed.first_offset]
        self._forget_stable(high_watermark)
        heappush(self._decided, (completed.first_offset, completed.last_offset))

    def complete_found(self, completed: CompletedTransaction, committed_below: Offset) -> None:
        """Marks a transaction as decided like `complete`, for the very many that are found while a log is opened.

        Transactions that end at or after `committed_below` are merged, and are stable when the high watermark has
        passed the last one, which it soon does. Separate entries would take memory, and time to drop them.
        """
        _, first_offset, last_offset, _ = completed
        del self._ongoing[first_offset]
        if last_offset < committed_below:
            return
        decided = self._decided
        if decided:
            decided[0] = min(first_offset, decided[0][0]), max(last_offset, decided[0][1])
        else:
            decided.append((first_offset, last_offset))

    def last_stable_offset_after(self, completed: CompletedTransaction) -> Offset:
        """Returns the offset below which all is decided once this transaction is; it may still be ongoing here."""
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                return Offset(first_offset)
        return Offset(completed.last_offset + 1)

    def first_undecided_offset(self) -> Offset | None:
        """Returns the first offset of the oldest ongoing transaction."""
        return Offset(next(iter(self._ongoing))) if self._ongoing else None

    def first_unstable_offset(self, high_watermark: Offset) -> Offset | None:
        """Returns the first offset of the oldest transaction not decided below the high watermark; None if all are.

        The high watermark must not decrease from one call to the next.
        """
        self._forget_stable(high_watermark)
        decided = self._decided
        undecided = self.first_undecided_offset()
        if not decided or (undecided is not None and undecided < decided[0][0]):
            return undecided
        return Offset(decided[0][0])

    def _forget_stable(self, high_watermark: Offset) -> None:
        decided = self._decided
        while decided and decided[0][1] < high_watermark:
            heappop(decided)

    def load(self, ongoing: Iterable[tuple[Offset, ProducerId]]) -> None:
        """Replaces all transactions with ongoing ones, given in any order as first offset and producer."""
        self.clear()
        self._ongoing.update(sorted(ongoing))

    def forget_ongoing(self) -> None:
        """Drops the transactions without a marker."""
        self._ongoing.clear()

    def clear(self) -> None:
        """Drops all transactions."""
        self._ongoing.clear()
        self._decided.clear()
