"""The transactions of one log that are not decided yet, and those whose end may not be replicated yet (KIP-98).

Together they say how far a read_committed consumer may read: the last stable offset.

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
    """A transaction that a marker ended, in one partition: the offsets of its first record and of the marker."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    is_aborted: bool


class OngoingTransactions:
    """The transactions of one log that bear on its last stable offset."""

    __slots__ = ("_decided", "_ongoing")

    def __init__(self) -> None:
        # By first offset, rising. Not a dict: finding the first key of one slows down with every key deleted before it.
        self._ongoing: OrderedDict[int, ProducerId] = OrderedDict()
        self._decided: list[tuple[int, int]] = []
        """First and last offset; a heap, so that those below the high watermark may lie in it until they are on top."""

    def __len__(self) -> int:
        """How many may hold back the last stable offset."""
        return len(self._ongoing) + len(self._decided)

    def __bool__(self) -> bool:
        """Whether any may hold back the last stable offset."""
        return bool(self._ongoing or self._decided)

    def begin(self, producer_id: ProducerId, first_offset: Offset) -> None:
        """A transaction begins at `first_offset`, which is above those of all that began before."""
        self._ongoing[first_offset] = producer_id

    def complete(self, completed: CompletedTransaction, high_watermark: Offset) -> None:
        """The transaction is decided; it is stable once the high watermark has passed its marker.

        What is stable by now is forgotten, whether anybody asks for the last stable offset or not.
        """
        del self._ongoing[completed.first_offset]
        self._forget_stable(high_watermark)
        heappush(self._decided, (completed.first_offset, completed.last_offset))

    def complete_found(self, completed: CompletedTransaction, committed_below: Offset) -> None:
        """As `complete`, for one of the very many that are found in a log which is opened.

        Those that end at `committed_below` or after it are stable together, when the high watermark has passed the last
        of them: it is about to, and each for itself would take memory for all, and time to forget them.
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
        """Up to where everything is decided by the time that this transaction is; it need not be noted yet."""
        for first_offset, producer_id in self._ongoing.items():
            if producer_id != completed.producer_id:
                return Offset(first_offset)
        return Offset(completed.last_offset + 1)

    def first_undecided_offset(self) -> Offset | None:
        """Where the oldest ongoing transaction begins."""
        return Offset(next(iter(self._ongoing))) if self._ongoing else None

    def first_unstable_offset(self, high_watermark: Offset) -> Offset | None:
        """Where the oldest transaction begins that is not decided below the high watermark; None if all are.

        The high watermark never falls from one call to the next.
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
        """Starts anew with ongoing transactions, in any order: first offset and producer."""
        self.clear()
        self._ongoing.update(sorted(ongoing))

    def forget_ongoing(self) -> None:
        """Forgets those that no marker has ended."""
        self._ongoing.clear()

    def clear(self) -> None:
        """Forgets all of them."""
        self._ongoing.clear()
        self._decided.clear()
